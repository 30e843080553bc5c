"""Scalars as curves, and numbers as text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.chart import SMALLEST, Scale, even_marks, judge_axis, round_step, step_marks
from pipeline.report.curves import Curve, gather_curves, smooth, thin
from pipeline.report.formatting import duration, number
from remote.protocol.events import Scalar


def test_a_resumed_job_continues_the_same_curve_and_replaces_repeated_steps():
    first = [Scalar("loss", step, 1.0, 10.0 + step, "a/e1") for step in (1, 2, 3)]
    second = [Scalar("loss", step, 2.0, 100.0 + step, "b/e2") for step in (3, 4)]
    (curve,) = gather_curves([*second, *first])
    assert curve == Curve("loss", ((1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0)))


def test_the_curve_of_a_job_that_restarted_has_no_points_of_the_earlier_job():
    first = [Scalar("loss", step, 1.0, 10.0 + step, "t/e1") for step in range(1, 91)]
    second = [Scalar("loss", step, 2.0, 200.0 + step, "t/e2") for step in range(1, 31)]
    (curve,) = gather_curves([*first, *second])
    assert curve == Curve("loss", tuple((step, 2.0) for step in range(1, 31)))


def test_a_resumed_job_discards_the_points_after_its_checkpoint():
    first = [Scalar("loss", step, 1.0, 10.0 + step, "a/e1") for step in (80, 90, 100, 110)]
    second = [Scalar("loss", step, 2.0, 200.0 + step, "b/e2") for step in (95, 105)]
    (curve,) = gather_curves([*first, *second])
    assert curve == Curve("loss", ((80, 1.0), (90, 1.0), (95, 2.0), (105, 2.0)))


def test_folders_written_at_the_same_time_are_different_curves():
    one = [Scalar("loss", step, 1.0, 10.0 + step, "generator/e") for step in (1, 2, 3)]
    two = [Scalar("loss", step, 2.0, 10.5 + step, "critic/e") for step in (1, 2, 3)]
    assert [curve.tag for curve in gather_curves([*one, *two])] == ["loss (critic)", "loss (generator)"]


def test_files_of_one_folder_are_one_curve():
    scalars = [Scalar("loss", step, 1.0, float(step), f"t/e{step % 2}") for step in range(6)]
    assert len(gather_curves(scalars)) == 1


@given(st.lists(st.floats(allow_infinity=False, allow_nan=False, width=32), min_size=1, max_size=3000))
def test_thinning_keeps_ends_and_extremes(values):
    curve = Curve("x", tuple(enumerate(values)))
    thinned = thin(curve, 100)
    assert len(thinned.points) <= 104
    assert thinned.points[0] == curve.points[0]
    assert thinned.points[-1] == curve.points[-1]
    assert min(v for _, v in thinned.points) == min(values)
    assert max(v for _, v in thinned.points) == max(values)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=400))
def test_smoothing_stays_between_the_extremes_and_keeps_every_step(values):
    curve = Curve("x", tuple(enumerate(values)))
    smoothed = smooth(curve)
    assert [step for step, _ in smoothed.points] == list(range(len(values)))
    assert all(min(values) - 1e-6 <= value <= max(values) + 1e-6 for _, value in smoothed.points)


@given(
    st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=20),
    st.sampled_from(Scale),
    st.integers(2, 8),
)
def test_an_axis_covers_its_values_with_a_few_round_marks(values, scale, ticks):
    marks, (low, high) = judge_axis(values, scale, ticks)
    close = 1e-6 * (max(values) - min(values)) + 1e-6 * abs(min(values)) + SMALLEST
    assert low <= min(values) + close
    assert high >= max(values) - close
    assert 1 <= len(marks) <= ticks + 4
    assert low < high


@pytest.mark.parametrize(("rough", "step"), [(0.3, 0.5), (1.0, 1.0), (1.2, 2.0), (24.0, 50.0), (0.00011, 0.0002)])
def test_steps_of_an_axis_are_one_two_or_five(rough, step):
    assert math.isclose(round_step(rough), step)


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(2, 10))
def test_marks_of_steps_lie_within_them(one, other, ticks):
    first, last = sorted((one, other))
    assert all(first <= mark <= last for mark in step_marks(first, last, ticks))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (120.0, "120"),
        (65536.0, "65\u202f536"),
        (-3.0, "−3"),
        (0.58312, "0.583"),
        (12.345, "12.3"),
        (2e-5, "2e−5"),
        (1.25e-5, "1.25e−5"),
        (3.2e9, "3.2e9"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
    ],
)
def test_numbers_are_written_shortly(value, words):
    assert number(value) == words


@given(st.floats())
def test_any_number_can_be_formatted(value):
    assert number(value)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.3, "300 ms"), (42.34, "42.3 s"), (94, "1 min 34 s"), (6322, "1 h 45 min"), (200_000, "2 d 7 h")],
)
def test_durations_have_their_two_largest_units(seconds, words):
    assert duration(seconds).replace("\u00a0", " ") == words


SCALARS = st.builds(
    Scalar,
    tag=st.just("loss"),
    step=st.integers(0, 6),
    value=st.floats(0, 9),
    wall_time=st.integers(0, 12).map(float),
    file=st.sampled_from("abcd"),
)


def replaced_one_file_after_the_other(scalars: list[Scalar]) -> list[tuple[int, float]]:
    """Return the points of `gather_curves`, computed by definition."""
    files = {name: [one for one in scalars if one.file == name] for name in dict.fromkeys(one.file for one in scalars)}
    kept: list[Scalar] = []
    for written in sorted(files.values(), key=lambda file: min(one.wall_time for one in file)):
        first, start = min(one.step for one in written), min(one.wall_time for one in written)
        kept = [one for one in kept if one.step < first or one.wall_time > start] + written
    latest: dict[int, Scalar] = {}
    for one in kept:
        if one.step not in latest or one.wall_time >= latest[one.step].wall_time:
            latest[one.step] = one
    return [(step, latest[step].value) for step in sorted(latest)]


@given(st.lists(SCALARS, min_size=1, max_size=40))
def test_later_files_replace_points_as_if_they_were_read_one_after_the_other(scalars: list[Scalar]) -> None:
    (curve,) = gather_curves(scalars)
    assert list(curve.points) == replaced_one_file_after_the_other(scalars)


class Counted(float):
    """A number that counts its comparisons and additions."""

    operations = 0

    def __lt__(self, other: float) -> bool:
        Counted.operations += 1
        return float(self) < other

    def __gt__(self, other: float) -> bool:
        Counted.operations += 1
        return float(self) > other

    def __ge__(self, other: float) -> bool:
        Counted.operations += 1
        return float(self) >= other

    def __add__(self, other: float) -> float:
        Counted.operations += 1
        return float(self) + other

    __radd__ = __add__


@pytest.mark.parametrize(("files", "points"), [(2, 1000), (200, 10), (2000, 1)])
@pytest.mark.parametrize("joined", [True, False])
def test_curves_of_many_points_and_files_need_few_comparisons(files: int, points: int, joined: bool) -> None:
    """Files of a hostile host overlap, so that each of them replaces points of the others."""
    start = 1e-3 if joined else 1e6
    Counted.operations = 0
    gather_curves(
        Scalar("loss", step if joined else file * points + step, 1.0, Counted(file * start + step), str(file))
        for file in range(files)
        for step in range(points)
    )
    assert Counted.operations < 30 * files * points


def test_SE_22_a_mean_over_all_steps_adds_each_loss_only_a_few_times() -> None:
    """At a high step number, the mean covers all steps that an event file contains."""
    first, count = 10**15, 2000
    Counted.operations = 0
    means = smooth(Curve("loss", tuple((first + at, Counted(1.5)) for at in range(count))))
    assert means.points[-1] == (first + count - 1, 1.5)
    assert Counted.operations < 10 * count


@pytest.mark.parametrize(("first", "last", "ticks"), [(1, 36, 2), (11, 39, 1), (10, 36, 2), (3, 4, 1), (19, 21, 4)])
def test_an_axis_of_steps_has_two_marks_or_more(first: int, last: int, ticks: int) -> None:
    marks = step_marks(first, last, ticks)
    assert len(marks) > 1 and all(first <= mark <= last for mark in marks)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1.3832, 1.3951], ["1.380", "1.385", "1.390", "1.395", "1.400"]),
        ([0.1, 0.9], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([-0.2, 0.2], ["\u22120.2", "\u22120.1", "0.0", "0.1", "0.2"]),
        ([0.0, 400.0], ["0", "100", "200", "300", "400"]),
    ],
)
def test_the_marks_of_an_axis_have_equal_numbers_of_digits(values, labels):
    marks, _ = judge_axis(values, Scale.LINEAR, 4)
    assert list(map(even_marks(marks), marks)) == labels
