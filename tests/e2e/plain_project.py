"""A project with one short loop in plain torch, which counts how often it was trained."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.lab.plain_torch import WITHOUT_COMPILER

SCRIPT = (
    WITHOUT_COMPILER
    + """
import json
import os
from pathlib import Path

import torch
from torch.utils.tensorboard import SummaryWriter

torch.manual_seed(0)
if "HALFSTEP_JOB" in os.environ and "HALFSTEP_PROOF" not in os.environ:
    with open(os.environ["TRAININGS"], "a") as file:
        file.write(f"{os.getpid()}\\n")
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
inputs = torch.randn(64, 8)
wanted = inputs.sum(1, keepdim=True).sin()
writer = SummaryWriter(os.environ["HALFSTEP_TENSORBOARD_DIR"])
for step in range(1, 61):
    loss = torch.nn.functional.mse_loss(model(inputs), wanted)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    writer.add_scalar("train/loss", loss.item(), step)
writer.close()
adapter = Path(os.environ["HALFSTEP_RUN_DIR"]) / "result.json"
adapter.write_text(json.dumps({"loss": round(loss.item(), 6)}))
"""
)


def write_plain_project(root: Path, extra_files: int = 12) -> None:
    """Write the project, its config `plain`, and some files to sync."""
    (root / "src").mkdir(parents=True, exist_ok=True)
    (root / "configs").mkdir(exist_ok=True)
    (root / "src" / "train.py").write_text(SCRIPT)
    for number in range(extra_files):
        (root / "src" / f"part_{number}.py").write_text(f"VALUE = {number}\n" * (200 * (number + 1)))
    (root / "configs" / "plain.yaml").write_text(
        "# pipeline run --host titan --config plain\n"
        "project: .\ncommand: [python, src/train.py]\nenv: {TRAININGS: $HOME/trainings.log}\n"
    )


def interpreter() -> str:
    """Return the Python that runs the tests, which has torch."""
    return sys.executable
