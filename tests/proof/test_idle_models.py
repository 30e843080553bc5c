"""Modules that a training script calls, but does not train."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.protocol.findings import Finding, Severity
from tests.proof.conftest import SCRIPTS, Prove

TRAINING = f"""
import sys
sys.path.insert(0, {str(SCRIPTS)!r})
import mini, torch

used = []
{{setup}}
model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-2)
for _ in range(12):
    loss = model.float()(**mini.batch())
    loss = loss + sum(one(torch.ones(1, 4)).square().mean() for one in used)
    {{step}}
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SHAPE = """
def shape_after(width):
    probe = torch.nn.Conv2d(1, width, 3)
    return probe(torch.ones(1, 1, 8, 8)).shape
shape_after(7)
"""
ALIVE = """
probe = torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.BatchNorm1d(9))
width = probe(torch.ones(2, 4)).shape[-1]
"""
TEACHER = "teacher = torch.nn.Linear(4, 9)"
ASKED = "with torch.no_grad(): teacher(torch.ones(1, 4))"
FORGOTTEN = "used = [torch.nn.Linear(4, 9)]"
FORGOTTEN_PART = "used = [torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.Linear(9, 2))]"


def findings_of(prove: Prove, tmp_path: Path, setup: str, step: str) -> dict[str, Finding]:
    script = tmp_path / "train.py"
    script.write_text(TRAINING.format(setup=setup, step=step or "pass"))
    return {one.check: one for one in prove(script).findings}


@pytest.mark.parametrize(("setup", "step"), [("", ""), (SHAPE, ""), (ALIVE, ""), (TEACHER, ASKED)])
def test_a_module_without_gradients_beside_the_model_is_not_counted(
    setup: str, step: str, prove: Prove, tmp_path: Path
) -> None:
    found = findings_of(prove, tmp_path, setup, step)
    held = found["optimizer-parameters"]
    assert (held.severity, held.message) == (Severity.INFO, "the optimizer holds exactly the trainable tensors")
    assert found["trainable-set"].message == "1,024 weights are trained"


@pytest.mark.parametrize(
    ("setup", "tensors", "where"),
    [(FORGOTTEN, 2, "Linear.bias, Linear.weight"), (FORGOTTEN_PART, 4, "Sequential.1.bias, Sequential.1.weight")],
)
def test_a_module_that_gets_gradients_and_is_in_no_optimizer_is_named(
    setup: str, tensors: int, where: str, prove: Prove, tmp_path: Path
) -> None:
    found = findings_of(prove, tmp_path, setup, "")["optimizer-parameters"]
    assert (found.severity, found.message) == (Severity.WARNING, f"{tensors} trainable tensors are in no optimizer")
    assert found.where.startswith(where)
