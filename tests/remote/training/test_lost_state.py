"""Why a checkpoint without optimizer state is refused: the transformers Trainer resumes from it silently."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import Trainer, TrainingArguments, set_seed

ROWS, BATCH, HALF = 64, 4, 96


class Line(torch.nn.Module):
    """A regression with an exact solution: its loss is near 0 once AdamW's moments have settled."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        prediction = self.layer(inputs).squeeze(-1)
        return {"loss": torch.nn.functional.mse_loss(prediction, labels)}


def rows() -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(ROWS, 4, generator=generator)
    return [{"inputs": row, "labels": row.sum()} for row in inputs]


def train(root: Path, resume_from: Path | None = None) -> list[float]:
    """Return the loss of every step that this process trained."""
    set_seed(3)
    arguments = TrainingArguments(
        output_dir=str(root),
        num_train_epochs=2 * HALF * BATCH // ROWS,
        per_device_train_batch_size=BATCH,
        learning_rate=1e-1,
        save_steps=HALF,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    trainer = Trainer(Line(), arguments, train_dataset=rows())
    trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
    return [float(row["loss"]) for row in trainer.state.log_history if "loss" in row]


@pytest.fixture
def whole(tmp_path: Path) -> tuple[list[float], Path]:
    """The losses of an undisturbed run, and its checkpoint half-way."""
    return train(tmp_path / "whole"), tmp_path / "whole" / f"checkpoint-{HALF}"


def test_a_resume_with_complete_state_gives_the_same_losses(whole: tuple[list[float], Path], tmp_path: Path) -> None:
    losses, half = whole
    assert train(tmp_path / "resumed", half) == losses


def test_FI_57_a_resume_without_optimizer_state_silently_gives_different_weights(
    whole: tuple[list[float], Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    losses, half = whole
    (half / "optimizer.pt").unlink()
    capfd.readouterr()
    resumed = train(tmp_path / "resumed", half)
    captured = capfd.readouterr()
    assert "optimizer" not in captured.out + captured.err
    assert resumed[: HALF + 1] == losses[: HALF + 1], "the loss of the first step was made by the weights alone"
    assert max(resumed[HALF + 1 :]) > 10 * max(losses[HALF + 1 :])
