"""A comparison shows the figures of the reports: the time of the jobs, and the speed at the end of the chart's line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.report.comparison import ComparedRun, compare
from pipeline.report.model import JobRow, RunReport, Verdict
from remote.protocol.events import Scalar
from remote.protocol.jobs import JobState

TAG = "train/tokens_per_second"
SPEEDS = tuple(Scalar(TAG, step, 1.0 if step == 20 else 100.0, 1000.0 + step, "tensorboard/e") for step in range(1, 21))
A = RunReport("a", "tiny", "titan", Verdict.TRAINED, step=20, began_unix=1.0, scalars=SPEEDS)


def shown(*reports: RunReport) -> dict[str, tuple[str, ...]]:
    return {row.name: row.values for row in compare([ComparedRun(report) for report in reports]).results}


def test_the_time_in_the_queue_is_no_time_of_training() -> None:
    """Both were queued by one command; the second waited for the first."""
    first = replace(A, jobs=(JobRow(1, JobState.SUCCEEDED, seconds=60.0),))
    resumed = (JobRow(1, JobState.STOPPED, seconds=20.0), JobRow(2, JobState.SUCCEEDED, seconds=45.0))
    second = replace(first, run="b", jobs=resumed)
    assert shown(first, second)["time"] == ("1\u00a0min\u00a00\u00a0s", "1\u00a0min\u00a05\u00a0s")
    assert "time" not in shown(A, replace(A, run="b")), "unknown"


@pytest.mark.parametrize("steps", [1, 20])
def test_the_speed_is_the_mean_that_the_chart_shows(steps: int) -> None:
    found = shown(replace(A, scalars=SPEEDS[:steps]), replace(A, run="b", scalars=SPEEDS[:10]))
    assert found["tokens per second"] == ("100" if steps == 1 else "90.1", "100")
