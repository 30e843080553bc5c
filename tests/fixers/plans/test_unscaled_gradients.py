"""float16 gradients need a loss scale: words that select them without one stay, or the loop gets one or is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.site_plan import plan_fixes
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers

SHARD = """import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def shard(model, settings):
    dtype = DTYPES[settings.grad_dtype]
    return fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32))
"""
CALLED = """from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision


def shard(model, settings):
    policy = MixedPrecision(to_dtype(settings["grad_dtype"]))
    return FullyShardedDataParallel(model, mixed_precision=policy)


def to_dtype(word):
    return getattr(torch, word)
"""
LOOP = "import torch\n\nfor batch in data:\n    model(batch).backward()\n    optimizer.step()\n"
SCALED = "import torch\n\nscaler = torch.amp.GradScaler()\nscaler.scale(model(batch)).backward()\n"
MOCK = "class MockAccelerator:\n    pass\n\n\naccelerator = MockAccelerator()\n"

PASSED = """import argparse
from contextlib import nullcontext

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16"])


def step(batch, context):
    with context:
        loss = model(batch)
    {backward}


args = parser.parse_args()
dtype = torch.bfloat16 if args.dtype == "bfloat16" else torch.float16
context = nullcontext() if args.cpu else torch.cuda.amp.autocast(dtype=dtype)
for batch in data:
    step(batch, context)
    run_all(optimizers)
"""


def _plan(root: Path, **files: str) -> Plan:
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)
    return plan_offers(Site(DiskTree(root), gpu=TITAN_RTX))


def _changed(plan: Plan) -> set[str]:
    return {change.path for change in plan.changes if isinstance(change, FileChange)}


@pytest.mark.parametrize(
    ("shard", "word"),
    [pytest.param(SHARD, "bf16", id="a table"), pytest.param(CALLED, "bfloat16", id="a function")],
)
@pytest.mark.parametrize("other", [LOOP, LOOP + MOCK])
def test_the_dtype_of_sharded_gradients_stays_without_a_loss_scale(
    tmp_path: Path, shard: str, word: str, other: str
) -> None:
    plan = _plan(tmp_path, shard__py=shard, train__py=other, run__yaml=f"grad_dtype: {word}\nkv_dtype: {word}\n")
    (change,) = (change for change in plan.changes if isinstance(change, FileChange))
    assert change.path == "run.yaml"
    assert change.after.decode().startswith(f"grad_dtype: {word}\nkv_dtype: f")
    assert ["the loss is not scaled" in finding.message for finding in plan.findings] == [True]


@pytest.mark.parametrize("other", [SCALED, "model.eval()\n"])
def test_it_becomes_float16_if_the_loss_is_scaled_or_nothing_is_trained(tmp_path: Path, other: str) -> None:
    plan = _plan(tmp_path, shard__py=SHARD, train__py=other, run__yaml="grad_dtype: bf16\n")
    assert _changed(plan) == {"run.yaml"}


def test_autocast_that_is_passed_to_the_loop_is_reported_without_a_scaler(tmp_path: Path) -> None:
    plan = _plan(tmp_path, train__py=PASSED.format(backward="loss.backward()"))
    assert [each.where for each in plan.findings if "without a loss scaler" in each.message] == ["train.py:18"]


def test_autocast_that_is_passed_to_a_loop_with_a_scaler_is_not_reported(tmp_path: Path) -> None:
    scaled = PASSED.format(backward="scaler.scale(loss).backward()")
    plan = _plan(tmp_path, train__py=scaled.replace("args = ", "scaler = torch.cuda.amp.GradScaler()\nargs = "))
    assert not [each for each in plan.findings if "without a loss scaler" in each.message]


BY_PARAMETER = """import torch

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(model, optimizer{default}):
    with torch.cuda.amp.autocast(enabled=True, dtype={dtype}):
        loss = model(torch.randn(8, 4).cuda()).square().mean()
    loss.backward()
    optimizer.step()


{call}
"""


def _planned(root: Path, dtype: str, default: str, call: str) -> Plan:
    (root / "train.py").write_text(BY_PARAMETER.format(dtype=dtype, default=default, call=call))
    return plan_fixes(Site(DiskTree(root), gpu=TITAN_RTX))


@pytest.mark.parametrize(
    ("default", "call"), [("=optimizer", "train(model)"), ("", "for epoch in range(2):\n    train(model, optimizer)")]
)
def test_a_loop_whose_optimizer_is_a_parameter_becomes_float16_with_a_scaler(
    tmp_path: Path, default: str, call: str
) -> None:
    plan = _planned(tmp_path, "torch.bfloat16", default, call)
    (change,) = (each for each in plan.changes if isinstance(each, FileChange))
    assert plan.findings == ()
    assert b"scaler.step(optimizer)" in change.after and b"dtype=torch.float16" in change.after


@pytest.mark.parametrize(("default", "call"), [("=None", "train(model, other())"), ("", "run(train, model)")])
def test_a_program_that_stays_in_bfloat16_gets_no_warning_about_float16(
    tmp_path: Path, default: str, call: str
) -> None:
    plan = _planned(tmp_path, "torch.bfloat16", default, call)
    assert plan.changes == ()
    (left,) = plan.findings
    assert "stays in bfloat16" in left.message and left.hint.startswith("scale the loss with torch.amp.GradScaler")


def test_autocast_that_the_file_itself_runs_in_float16_is_still_reported(tmp_path: Path) -> None:
    plan = _planned(tmp_path, "torch.float16", "", "model.to(torch.bfloat16)\nrun(train, model)")
    assert plan.changes == ()
    assert [each.where for each in plan.findings if "without a loss scaler" in each.message] == ["train.py:8"]
