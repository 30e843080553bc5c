"""Eval mode is reported only where it changes layers through which a trained model gets its gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.protocol.findings import Severity

LOOP = """
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
{build}
for step in range(4):
    optimizer.zero_grad()
    run(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
"""
OPTIMIZER = "optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)\n"
PLAIN = "model = nn.Sequential(nn.Linear(4, 4), {layer}, nn.Linear(4, 1)).eval()\nrun = model\n" + OPTIMIZER
FROZEN_TEACHER = (
    "teacher = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.LayerNorm(4)).eval().requires_grad_(False)\n"
    "model = nn.Linear(4, 1)\n" + OPTIMIZER
)
RECURRENT = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(4, 4, num_layers=2, dropout=0.2)
    def forward(self, x):
        return self.layer(x)[0]
model = Net().eval()
run = model
"""
FUNCTIONAL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.attention_dropout = 0.1
    def forward(self, x):
        return F.dropout(self.layer(x), self.attention_dropout, self.training)
model = Net().eval()
run = model
"""
ENCODER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).requires_grad_(False)
        self.head = nn.Linear(4, 1)
    def forward(self, x):
        return self.head(self.encoder(x))
model = Net().eval()
run = model
"""
HARMLESS = "is in eval mode, which changes none of the layers that are trained"


@pytest.fixture
def mode(prove, tmp_path: Path):
    """Return the finding about the mode in which a script trains its model."""

    def run(build: str):
        script = tmp_path / "train.py"
        script.write_text(LOOP.format(build=build))
        report = prove(script)
        return next(one for one in report.findings if one.check == "train-mode")

    return run


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (PLAIN.format(layer="nn.Dropout(0.1)"), "Sequential is trained in eval mode, without dropout"),
        (PLAIN.format(layer="nn.BatchNorm1d(4)"), "trained in eval mode, which changes its layers BatchNorm1d"),
        (RECURRENT + OPTIMIZER, "Net is trained in eval mode, without dropout"),
        (FUNCTIONAL + OPTIMIZER, "Net is trained in eval mode, without dropout"),
        (
            PLAIN.format(layer="nn.Sequential(nn.Dropout(0.1), nn.Linear(4, 4).requires_grad_(False))"),
            "Sequential is trained in eval mode, without dropout",
        ),
    ],
    ids=["dropout", "batch-norm", "recurrent", "functional", "frozen-layer-with-gradients"],
)
def test_eval_mode_that_changes_trained_layers_is_reported(build: str, message: str, mode) -> None:
    found = mode(build)
    assert found.severity is Severity.WARNING
    assert message in found.message


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (PLAIN.format(layer="nn.Dropout(0.0)"), HARMLESS),
        (PLAIN.format(layer="nn.LayerNorm(4)"), HARMLESS),
        (FROZEN_TEACHER + "run = lambda x: model(teacher[2](teacher(x)))", "the model is in training mode"),
        (FROZEN_TEACHER + "run = lambda x: teacher(model(x).expand(-1, 4))", "the model is in training mode"),
        (ENCODER + OPTIMIZER, HARMLESS),
    ],
    ids=["rate-of-zero", "no-such-layer", "frozen-model-before", "frozen-model-behind", "frozen-encoder-inside"],
)
def test_eval_mode_that_changes_nothing_for_the_trained_layers_is_not_reported(build: str, message: str, mode) -> None:
    found = mode(build)
    assert found.severity is Severity.INFO
    assert message in found.message
