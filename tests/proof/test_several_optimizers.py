"""The loss of a training with several optimizers is the loss of the optimizer with the most parameters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remote.payload.proof.hooks.progress import ProgressRecord
from tests.proof.test_progress import step

SETUP = """
import torch
critic, generator = (torch.nn.Parameter(torch.zeros(size)) for size in ({critic}, {generator}))
of_critic, of_generator = (torch.optim.SGD([one], lr=1e-9) for one in (critic, generator))
for _ in range(12):
"""
ALTERNATING = """
    of_critic.zero_grad()
    (critic.sum() + 2.0).backward()
    of_critic.step()
    of_generator.zero_grad()
    (generator.sum() + 8.0).backward()
    of_generator.step()
"""
TOGETHER = """
    of_critic.zero_grad()
    of_generator.zero_grad()
    (critic.sum() + 2.0).backward()
    (generator.sum() + 3.0).backward()
    of_critic.step()
    of_generator.step()
"""


@pytest.mark.parametrize(
    ("body", "critic", "generator", "loss"),
    [(ALTERNATING, 30, 10, 2.0), (ALTERNATING, 10, 30, 8.0), (TOGETHER, 30, 10, 5.0), (TOGETHER, 10, 30, 5.0)],
    ids=["the first one is the largest", "the last one is the largest", "same losses, first", "same losses, last"],
)
def test_the_loss_is_that_of_the_largest_optimizer(body, critic, generator, loss, watch, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text((SETUP + body).format(critic=critic, generator=generator))
    _, status, output = watch(tmp_path / "train.py")
    progress = json.loads((tmp_path / "progress.json").read_text())
    assert status == 0, output
    assert (progress["loss"], progress["first_loss"]) == (pytest.approx(loss), pytest.approx(loss))


def test_losses_of_other_optimizers_and_steps_before_a_restart_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "losses.txt"
    record = ProgressRecord(str(path))
    record.row(step(1, 7.0), began=0, skipped=0)
    record.file.write()
    record.restart()
    row = record.row(step(2, 7.0, 40.0, 2.0), began=0, skipped=0, foreign=1)
    record.file.write()
    assert (row["step"], row["loss"], row["first_loss"]) == (2, 42.0, 42.0)
    assert record.row(step(3, 7.0), began=0, skipped=0, foreign=1)["loss"] == 42.0, "a step without a loss of its own"
    assert path.read_text() == "2 42.0\n"
