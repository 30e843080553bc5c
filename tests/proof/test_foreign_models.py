"""A model may raise in methods and properties that its author never calls; the proof records everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.protocol.findings import Severity

LOOP = """
import gc, torch

{model}

for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
    {after}
"""
WITHOUT_EMBEDDINGS = """
class Config:
    tie_word_embeddings = True

class Speech(torch.nn.Module):
    config = Config()
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x):
        return self.layer(x)
    def get_input_embeddings(self):
        raise NotImplementedError
    def get_output_embeddings(self):
        raise AttributeError("no head")

model = Speech()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
"""
OWN_GROUPS = """
class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x):
        return self.layer(x)
    def parameters(self, rate=1e-2):
        return [{"params": list(self.layer.parameters()), "lr": rate}]
    def named_parameters(self, prefix):
        raise RuntimeError("never called")

model = Encoder().to(torch.float64).float()
optimizer = torch.optim.AdamW(model.parameters())
"""
PROPERTIES = """
class Wrapped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x):
        return self.layer(x)
    @property
    def config(self):
        raise ValueError("read after from_pretrained only")
    @property
    def module(self):
        raise RuntimeError("not attached")
    @property
    def mixed_precision(self):
        raise KeyError("policy")

model = Wrapped()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
"""
SCHEDULED = """
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: [1.0, 0.9, 0.8, 0.7, 0.6][step])
"""
NEVER_BUILT = """
class Lazy(torch.nn.Module):
    def __init__(self):
        pass

lazy = Lazy()
model = torch.nn.Linear(4, 1)
shift = torch.nn.Linear(1, 1)
optimizer = torch.optim.AdamW([*model.parameters(), *shift.parameters()], lr=1e-2)
"""


@pytest.mark.parametrize(
    ("model", "after"),
    [
        pytest.param(WITHOUT_EMBEDDINGS, "", id="embeddings-raise"),
        pytest.param(OWN_GROUPS, "", id="parameters-are-groups"),
        pytest.param(PROPERTIES, "", id="properties-raise"),
        pytest.param(SCHEDULED, "schedule.step()", id="schedule-of-a-short-table"),
        pytest.param(NEVER_BUILT, "", id="module-without-init"),
    ],
)
def test_a_model_that_raises_where_the_hooks_look_is_proved_all_the_same(model, after, prove, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(model=model, after=after))
    report = prove(script, environment={"HALFSTEP_STEPS": "100"})
    assert len(report.steps) == 2, report.output_tail
    assert [one for one in report.findings if one.severity is Severity.ERROR] == []
    assert "hooks" not in {one.check for one in report.unseen}
    assert {"trainable-set", "adapter-moves", "loss-finite"} <= {one.check for one in report.findings}
