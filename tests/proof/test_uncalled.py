"""Parameters of modules that a training script reads without calling them."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.protocol.findings import Finding, Severity
from tests.proof.conftest import SCRIPTS, Prove

MARGIN = f"""
import sys
sys.path.insert(0, {str(SCRIPTS)!r})
import mini, torch
import torch.nn.functional as F

{{setup}}
model = mini.build()
optimizer = torch.optim.AdamW([*mini.trained(model), *extra], lr=1e-2)
for _ in range(12):
    loss = model.float()(**mini.batch())
    loss = loss + sum(F.cross_entropy(F.normalize(w).sum(1)[None], torch.tensor([2])) for w in weights)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
ONE = "classifier = torch.nn.Linear(64, 5)\nextra, weights = list(classifier.parameters()), [classifier.weight]"
TWO = """
class Heads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.speaker = torch.nn.Linear(64, 5)
        self.language = torch.nn.Linear(64, 4)
heads = Heads()
extra, weights = list(heads.parameters()), [heads.speaker.weight, heads.language.weight]
"""
SPARE = "spare = torch.nn.Linear(64, 5)\nextra, weights = list(spare.parameters()), []"
LOOSE = "extra, weights = [torch.nn.Parameter(torch.ones(5, 64))], []"
READ = """
class Attention(mini.Layer):
    def forward(self, x):
        h = F.linear(self.norm(x), self.query.base.weight) + self.value(self.norm(x))
        return x + self.out(h)
mini.Layer = Attention
extra, weights = [], []
"""


def findings_of(prove: Prove, tmp_path: Path, setup: str) -> dict[str, Finding]:
    script = tmp_path / "train.py"
    script.write_text(MARGIN.format(setup=setup))
    return {one.check: one for one in prove(script).findings}


@pytest.mark.parametrize(("setup", "tensors", "idle"), [(ONE, 2, "Linear.bias"), (TWO, 4, "Heads.speaker.bias")])
def test_layers_whose_weights_are_read_without_a_call_are_parts_of_the_trained_model(
    setup: str, tensors: int, idle: str, prove: Prove, tmp_path: Path
) -> None:
    found = findings_of(prove, tmp_path, setup)
    expected = f"the optimizer holds the trainable tensors, and {tensors} of modules that are read without a call"
    assert (found["optimizer-parameters"].severity, found["optimizer-parameters"].message) == (Severity.INFO, expected)
    assert found["adapter-gradient"].where.startswith(idle)


@pytest.mark.parametrize(
    ("setup", "message", "where"),
    [
        (SPARE, "2 optimized tensors are in modules that are not called and get no gradient", "Linear.weight, Linear"),
        (LOOSE, "1 optimized tensor is in no module", ""),
    ],
)
def test_optimized_tensors_that_are_not_used_are_a_warning(
    setup: str, message: str, where: str, prove: Prove, tmp_path: Path
) -> None:
    finding = findings_of(prove, tmp_path, setup)["optimizer-parameters"]
    assert (finding.severity, finding.message) == (Severity.WARNING, message)
    assert finding.where.startswith(where)


def test_a_layer_whose_adapter_is_skipped_because_its_weight_is_read_is_named(prove: Prove, tmp_path: Path) -> None:
    finding = findings_of(prove, tmp_path, READ)["adapter-gradient"]
    assert finding.message.startswith("4 of 8 trained tensors got no gradient")
    assert finding.message.endswith("; 4 of them belong to layers that the model never calls")
    assert finding.where.startswith("layers.0.query.lora_A")
    assert "call the layer" in finding.hint


def test_a_layer_that_is_called_without_its_adapter_is_not_reported_as_uncalled(prove: Prove, tmp_path: Path) -> None:
    off = "mini.Lora.forward = lambda self, x: self.base(x)\nextra, weights = [], []\n"
    finding = findings_of(prove, tmp_path, off + TRAINED_NORM)["adapter-gradient"]
    assert (finding.severity, finding.hint) == (Severity.ERROR, "")
    assert "never calls" not in finding.message


TRAINED_NORM = """
class Normed(mini.Mini):
    def __init__(self):
        super().__init__()
        self.layers[0].norm.requires_grad_(True)
mini.Mini = Normed
"""
