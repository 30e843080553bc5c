"""The loss that every command shows is the mean over the newest optimizer steps, however it is computed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.payload.proof.hooks.progress import MeanLoss as MeanLossOfHooks
from remote.protocol.loss import MeanLoss, loss_text, mean_losses, steps_in_mean


@pytest.mark.parametrize(("step", "steps"), [(1, 10), (120, 10), (300, 10), (330, 11), (9000, 300)])
def test_the_mean_is_over_ten_steps_or_a_thirtieth_of_a_longer_training(step: int, steps: int) -> None:
    assert steps_in_mean(step) == steps


@pytest.mark.parametrize(
    ("points", "mean", "lowest"),
    [
        ([], None, None),
        ([(1, 4.0)], 4.0, 4.0),
        ([(1, 4.0), (2, 2.0)], 3.0, 3.0),
        ([(step, float(step)) for step in range(1, 21)], 15.5, 1.0),
        # The live view shows a mean of fewer steps at the start, so the lowest loss is not above it.
        ([(1, 0.5), *((step, 2.0) for step in range(2, 12))], 2.0, 0.5),
        # A training that logs each tenth step logs the mean of ten steps.
        ([(10, 3.0), (20, 2.0), (30, 1.0)], 1.0, 1.0),
        ([(5, 3.0), (10, 2.0), (15, 1.0)], 1.5, 1.5),
    ],
)
def test_the_loss_of_a_training(points: list[tuple[int, float]], mean: float | None, lowest: float | None) -> None:
    loss = MeanLoss()
    for step, value in points:
        loss.add(step, value)
    assert (loss.mean, loss.lowest) == (pytest.approx(mean), pytest.approx(lowest))


def test_a_resumed_training_continues_its_window() -> None:
    """At a step far into a training the window is long, whatever was seen of it."""
    loss = MeanLoss()
    for step in range(5001, 5401):
        loss.add(step, float(step))
    assert loss.mean == pytest.approx(sum(range(5221, 5401)) / 180)


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(-100, 100)), max_size=200))
def test_the_hooks_and_the_report_compute_the_same_loss(gaps: list[tuple[int, float]]) -> None:
    step, points = 0, []
    for gap, value in gaps:
        step += gap
        points.append((step, value))
    ours, hooks = MeanLoss(), MeanLossOfHooks()
    for at, value in points:
        ours.add(at, value)
        hooks.add(at, value)
    assert (ours.mean, ours.lowest) == (hooks.mean, hooks.lowest)
    assert (list(mean_losses(points)) or [(0, None)])[-1][1] == ours.mean


def test_a_loss_is_printed_with_four_digits() -> None:
    assert [loss_text(value) for value in (1.83712, 0.00012345, 12.0, 65536.0)] == [
        "1.837",
        "0.0001234",
        "12",
        "6.554e+04",
    ]
