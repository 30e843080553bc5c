"""A loss that nothing divides by the number of micro-batches is reported, whoever was meant to divide it."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.protocol.findings import Finding
from tests.proof.conftest import Prove

SCRIPT = Path(__file__).parent / "scripts" / "accumulated" / "accumulating.py"
CURE = "model.accepts_loss_kwargs = False before "


def found(prove: Prove, kind: str) -> list[Finding]:
    report = prove(SCRIPT, argv=(kind,))
    assert report.applied >= 2, report.output_tail[-2000:]
    return [finding for finding in report.findings if finding.check == "loss-accumulation"]


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("seq2seq", CURE + "the Trainer is created"),
        ("peft-model-ignores", CURE + "PEFT wraps the model"),
        ("peft-wrapper-only", CURE + "PEFT wraps the model"),
        ("loop-forgets", "(loss / 2).backward()"),
        ("drops-the-items", "trainer.model_accepts_loss_kwargs = False before trainer.train()"),
    ],
)
def test_a_loss_that_nothing_divides_is_a_warning_with_its_factor_and_cure(kind: str, hint: str, prove: Prove) -> None:
    [finding] = found(prove, kind)
    assert finding.severity.value == "warning"
    assert "loss and gradients are 2 times too large" in finding.message
    method = "compute_loss" if kind == "drops-the-items" else "forward"
    path, _, line = finding.where.rpartition(":")
    assert path.endswith("accumulating.py")
    assert f"def {method}(self, " in SCRIPT.read_text().splitlines()[int(line) - 1]
    assert finding.hint == hint


@pytest.mark.parametrize("kind", ["model-divides", "peft-model-divides"])
def test_a_model_that_divides_its_loss_passes(kind: str, prove: Prove) -> None:
    [finding] = found(prove, kind)
    assert finding.severity.value == "info", finding


@pytest.mark.parametrize(
    "kind",
    [
        "cured",
        "peft-cured",
        "drops-and-cured",
        "one-micro-batch",
        "loss-function",
        "own-loss",
        "own-criterion",
        "own-division",
        "smoothed",
        "accelerate",
        "loop-divides",
        "loop-without-items",
    ],
)
def test_a_loss_that_other_code_divides_is_not_reported(kind: str, prove: Prove) -> None:
    assert found(prove, kind) == []
