"""How often progress is printed without a spinner."""

from __future__ import annotations

import pytest

from pipeline.show.throttle import Throttle

Step = tuple[float, float]


def printed(steps: list[Step], total: float | None) -> list[float]:
    """Return the steps that are printed, given steps with their times in seconds."""
    throttle = Throttle()
    return [done for now, done in steps if throttle.due(f"step {done}", now, done, total)]


@pytest.mark.parametrize(
    ("steps", "total", "lines"),
    [
        ([(n * 0.6, n) for n in range(1, 101)], 100, [1, *range(10, 100, 9), 100]),
        ([(n * 40.0, n) for n in range(1, 5)], 1000, [1, 2, 3, 4]),
        ([(n * 1.0, n) for n in range(1, 100)], None, [1, 31, 61, 91]),
        ([(n * 0.01, n) for n in range(1, 61)], 60, [1, 60]),
        ([(0.0, 5), (1.0, 5), (600.0, 5)], 60, [5]),
        ([(0.0, 50), (1.0, 1), (2.0, 2)], 60, [50, 1]),
    ],
    ids=["quick", "slow", "no end known", "over at once", "the same again", "begun again"],
)
def test_a_step_is_printed_after_a_share_of_all_steps_or_some_time(
    steps: list[Step], total: float | None, lines: list[float]
) -> None:
    assert printed(steps, total) == lines


def test_a_new_text_is_printed_at_once_and_a_repeated_one_once() -> None:
    throttle = Throttle()
    assert [throttle.due(text, 0.0) for text in ("starting", "starting", "planning", "starting")] == [
        True, False, True, True,
    ]  # fmt: skip
    assert throttle.due("step 1", 0.0, 1, 10), "the first number after words"
    assert throttle.due("the line was lost", 0.1), "words between numbers"
