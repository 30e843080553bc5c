"""The proof detects that label-padding changed a file wrongly, and `run` reverts the change."""

from __future__ import annotations

import sys

import pytest

from tests.e2e.user import User
from tests.e2e.waiting_project import confirm_host_file

COLLATE = """\
import torch
import torch.nn.functional as F


def collate(samples):
    input_ids = torch.stack([s["input_ids"] for s in samples])
    return {"input_ids": input_ids, "labels": torch.stack([F.pad(s["labels"], (0, 3)) for s in samples])}
"""
TRAIN = """\
import torch
from torch import nn
from batches import collate

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(50, 16), nn.Flatten(), nn.Linear(64, 12))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for step in range(6):
    sample = lambda: {"input_ids": torch.randint(0, 50, (4,)), "labels": torch.randint(0, 2, (9,)).float()}
    batch = collate([sample() for _ in range(8)])
    loss = criterion(model(batch["input_ids"]), batch["labels"])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
"""


@pytest.fixture
def multi_hot(user: User) -> User:
    """A project that trains on multi-hot labels; its collator alone does not show that they are multi-hot."""
    hosts = user.project / "configs" / "hosts"
    hosts.mkdir(parents=True)
    (user.project / "batches.py").write_text(COLLATE)
    (user.project / "train.py").write_text(TRAIN)
    (hosts / "local.yaml").write_text(f"host: local\ncard: titan-rtx\nworkdir: ~/w\npython: {sys.executable}\n")
    confirm_host_file(user, "local")
    (user.project / "configs" / "hot.yaml").write_text("project: .\ncommand: [python, train.py]\n")
    return user


def test_run_reverts_padding_that_the_loss_does_not_ignore(multi_hot: User) -> None:
    refused = multi_hot.run_pipeline("run", "--host", "local", "--config", "hot", "--no-heal", "--json")
    (error,) = (one for one in refused.json["findings"] if one["check"] == "labels-ignored")
    assert refused.code == 23, refused.err
    assert (error["severity"], error["where"]) == ("error", "batches.py:7")
    assert "fixers.label-padding=never" in error["hint"]
    healed = multi_hot.run_pipeline("run", "--host", "local", "--config", "hot", "--json")
    assert healed.code == 0, healed.err
    (copy,) = multi_hot.home.glob("w/projects/*/tree/batches.py")
    assert copy.read_text() == COLLATE
    again = multi_hot.run_pipeline("run", "--host", "local", "--config", "hot", "--json")
    assert set(again.states.values()) == {"skipped"}, again.err
