"""Rows of scalars, as `pipeline tail` prints them."""

from __future__ import annotations

import pytest

from pipeline.show.rows import readable, render_row, rows_of
from remote.protocol.events import Scalar


def point(step: int, tag: str, value: float) -> Scalar:
    return Scalar(tag, step, value, 0.0)


STEP = [point(40, "train/loss", 1.8312), point(40, "train/learning_rate", 2e-5), point(40, "train/step_seconds", 1.24)]


def test_the_scalars_of_a_step_are_one_row() -> None:
    rows = list(
        rows_of([point(1, "loss", 3.0), point(1, "grad_norm", 0.5), point(2, "loss", 2.5), point(1, "loss", 3.0)])
    )
    assert [[scalar.step for scalar in row] for row in rows] == [[1, 1], [2], [1]]
    assert render_row(STEP, None) == "      40  loss 1.831  learning_rate 2e-05  step_seconds 1.2 s\n"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (20, "      40  loss 1.831  +2"),
        (52, "      40  loss 1.831  +2"),
        (53, "      40  loss 1.831      learning_rate 2e-05  +1"),
        (70, "      40  loss 1.831      learning_rate 2e-05      step_seconds 1.2 s"),
    ],
)
def test_a_row_on_a_terminal_is_one_line_of_columns_and_counts_what_does_not_fit(width: int, line: str) -> None:
    assert render_row(STEP, width) == f"{line}\n"


def test_the_last_of_two_values_with_the_same_tag_is_shown() -> None:
    assert render_row([point(3, "train/epoch", 1.0), point(3, "train/epoch", 2.0)], None) == "       3  epoch 2\n"


@pytest.mark.parametrize(
    ("tag", "value", "text"),
    [
        ("train/loss", 0.123456, "0.1235"),
        ("train/tokens_per_second", 3120.0, "3.12k/s"),
        ("train/samples_per_second", 4.5, "4.5/s"),
        ("train/peak_memory_bytes", 21_400_000_000.0, "21.4 GB"),
        ("train/peak_memory", 1.271e9, "1.18 GiB"),
        ("train/step_seconds", 4271.0, "71 min"),
        ("train/learning_rate", 2e-5, "2e-05"),
        ("train/loss", float("nan"), "nan"),
    ],
)
def test_a_value_has_the_unit_that_its_tag_names(tag: str, value: float, text: str) -> None:
    assert readable(tag, value) == text


def test_the_tag_of_an_evaluation_is_printed_in_full() -> None:
    assert render_row([point(3, "train/loss", 1.0), point(3, "eval/loss", 2.0)], None) == (
        "       3  loss 1  eval/loss 2\n"
    )


NAMES = ["eval/loss", "eval/runtime", "train/epoch", "train/grad_norm", "train/learning_rate", "train/loss"]


def test_losses_are_first_and_have_the_same_name_in_each_row() -> None:
    training = [point(2, tag, 1.0) for tag in NAMES if tag.startswith("train/")]
    both = [point(4, tag, 1.0) for tag in NAMES]
    assert render_row(training, 60) == "       2  loss 1          grad_norm 1  +2\n"
    assert render_row(both, 60) == "       4  loss 1          eval/loss 1  +4\n"
    assert render_row(training, None).endswith("  epoch 1\n")


@pytest.mark.parametrize(
    ("tags", "labels"),
    [
        (["Loss/val", "Loss/train", "lr"], ["Loss/train", "Loss/val", "lr"]),
        (["train/loss_scale", "train/loss"], ["loss", "loss_scale"]),
        (["loss", "train/loss"], ["loss", "train/loss"]),
        (["epoch", "val_loss", "train_loss"], ["train_loss", "val_loss", "epoch"]),
    ],
)
def test_the_label_is_the_tag_without_train(tags: list[str], labels: list[str]) -> None:
    assert render_row([point(1, tag, 1.0) for tag in tags], None).split()[1::2] == labels
