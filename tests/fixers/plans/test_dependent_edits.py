"""A word is replaced only if all readers that must accept its float16 word are edited; otherwise nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.dependent_edits import plan_dependent
from fixers.plans.file_facts import read_files
from fixers.plans.own_code import read_code_facts
from fixers.sources.readers.consumers import Consumers
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers

READER = 'import torch\n\nDTYPE = {"bf16": torch.bfloat16, "fp32": torch.float32}[config["compute_dtype"]]\n'
GATED = """import torch

if torch.cuda.get_device_capability() >= (8, 0):
    DTYPE = {"bf16": torch.bfloat16, "fp32": torch.float32}[config["compute_dtype"]]
"""
YAML = "compute_dtype: bf16\n"


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"npu/model.py": READER}, id="a reader in a file that no fixer edits"),
        pytest.param({"model.py": GATED}, id="a reader in a branch that no fixer edits"),
        pytest.param({"model.py": READER, "other.py": GATED}, id="one of two readers"),
    ],
)
def test_a_word_stays_in_all_files_if_one_of_its_readers_cannot_be_edited(
    tmp_path: Path, files: dict[str, str]
) -> None:
    plan = plan_offers(Site(DiskTree(_write(tmp_path, {**files, "train.yaml": YAML})), gpu=TITAN_RTX))
    assert plan.changes == ()
    assert [each.where for each in plan.findings if "accepts only" in each.message] == ["train.yaml:1"]


def test_words_and_readers_change_together_if_all_can_be_edited(tmp_path: Path) -> None:
    files = {"model.py": READER, "other.py": READER, "train.yaml": YAML}
    plan = plan_offers(Site(DiskTree(_write(tmp_path, files)), gpu=TITAN_RTX))
    assert [change.path for change in plan.changes if isinstance(change, FileChange)] == sorted(files)


def test_a_refused_file_locks_its_readers_and_everything_is_planned_again(tmp_path: Path) -> None:
    tree = DiskTree(_write(tmp_path, {"model.py": READER, "train.yaml": YAML}))
    passes: list[list[bool]] = []

    def plan_with(consumers: Consumers) -> Plan:
        passes.append([reader.extensible for reader in consumers.readers])
        return Plan()

    plan_dependent(read_code_facts(tree, read_files(tree)).consumers, plan_with)
    assert passes == [[True], [False]]
