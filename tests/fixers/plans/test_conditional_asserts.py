"""An assert under a condition restricts only the programs that meet the condition."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers

MODEL = """import torch


def dtype_of(compute_dtype):
    if compute_dtype == "bf16":
        return torch.bfloat16
    elif compute_dtype == "fp16":
        return torch.float16
    raise ValueError(compute_dtype)


def build(compute_dtype="bf16", packed=False):
    {assertion}
    return Model(dtype_of(compute_dtype))
"""
UNDER = """if packed:
        assert compute_dtype == "bf16", "only bf16"
        weights = pack(torch.bfloat16)"""
ENGINE = """def engine(compute_dtype="bf16"):
    return {
        "bf16": {"enabled": compute_dtype == "bf16"},
        "fp16": {"enabled": compute_dtype == "fp16"},
    }
"""
LATER = """import torch


class Engine:
    def __init__(self, args):
        self.compute_dtype = args.compute_dtype
        if args.shards > 1:
            assert self.compute_dtype in ("bfloat16", "bf16")

    def place(self, model, args):
        if args.shards > 1:
            return model.to(torch.bfloat16)
        return model.to("cuda")
"""


def _plan(root: Path, **files: str) -> Plan:
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)
    return plan_offers(Site(DiskTree(root), gpu=TITAN_RTX))


def _after(plan: Plan) -> dict[str, str]:
    return {change.path: change.after.decode() for change in plan.changes if isinstance(change, FileChange)}


def test_the_word_changes_and_the_branch_that_asserts_it_stays(tmp_path: Path) -> None:
    plan = _plan(tmp_path, model__py=MODEL.format(assertion=UNDER), run__yaml="compute_dtype: bf16\n")
    model = MODEL.format(assertion=UNDER).replace('compute_dtype="bf16"', 'compute_dtype="fp16"')
    assert _after(plan) == {"model.py": model, "run.yaml": "compute_dtype: fp16\n"}
    assert [each.where for each in plan.findings if each.message.startswith("if packed is true,")] == ["model.py:14"]


def test_an_assert_without_a_condition_keeps_the_word(tmp_path: Path) -> None:
    source = MODEL.format(assertion='assert compute_dtype == "bf16"')
    plan = _plan(tmp_path, model__py=source, run__yaml="compute_dtype: bf16\n")
    assert _after(plan) == {}
    assert {each.where for each in plan.findings if "accepts only bf16" in each.message} >= {"run.yaml:1"}


def test_a_table_under_a_condition_is_named_with_it(tmp_path: Path) -> None:
    table = '    dtype = {"32-true": torch.float32, "bf16-true": torch.bfloat16}[args.compute_precision]\n'
    source = f"import torch\n\nif args.packed:\n{table}"
    files = {"other__py": source, "run__py": source, "run__yaml": "compute_precision: bf16-true\n"}
    plan = _plan(tmp_path, **files)
    assert _after(plan) == {}
    (finding,) = (each for each in plan.findings if each.where == "run.yaml:1")
    assert finding.message.startswith("bf16-true is not replaced: with args.packed, run.py:4 accepts only")


def test_blocks_that_follow_an_option_stay_beside_each_other(tmp_path: Path) -> None:
    assert _after(_plan(tmp_path, engine__py=ENGINE)) == {"engine.py": ENGINE.replace('="bf16"', '="fp16"', 1)}


@pytest.mark.parametrize("condition", ["args.shards > 1", "args.count > 1"])
def test_other_branches_under_the_condition_of_the_assert_stay(tmp_path: Path, condition: str) -> None:
    method = LATER.replace("args.shards > 1:\n            return", f"{condition}:\n            return")
    stays = condition == "args.shards > 1"
    assert ("model.py" in _after(_plan(tmp_path, model__py=method))) is not stays
