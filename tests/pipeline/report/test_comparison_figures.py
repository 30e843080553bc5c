"""A comparison shows the figures of the reports: the time of the jobs, and the speed at the end of the chart's line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.records.run_inputs import RunInputs
from pipeline.report.comparison import ComparedRun, compare
from pipeline.report.model import JobRow, RunReport, Verdict
from remote.protocol.evaluation import ADAPTER, Estimate, EvaluationResult, ModelScores
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


def test_a_setting_without_a_value_is_not_set_instead_of_null() -> None:
    inputs = [RunInputs(settings={"train": {"max_steps": steps, "seed": 0}}) for steps in (None, 30)]
    rows = compare([ComparedRun(replace(A, run=one), each) for one, each in zip("ab", inputs, strict=True)]).settings
    assert [(row.name, row.values) for row in rows] == [("train.max_steps", ("not set", "30"))]


def evaluated(run: str, **metrics: float | None) -> RunReport:
    scores = ModelScores(ADAPTER, {name: Estimate(value) for name, value in metrics.items()})
    return replace(A, run=run, evaluation=EvaluationResult((scores,), 1, 1))


def test_a_score_that_no_run_has_is_left_out_and_a_missing_one_is_a_dash() -> None:
    found = shown(evaluated("a", wer=0.25, f1=None), evaluated("b", wer=None, f1=None))
    assert [values for values in found.values() if values[1] == "–"] == [("0.250", "–")]
    assert found.keys() == shown(evaluated("a", wer=0.25), evaluated("b", wer=0.5)).keys()
    assert "-" not in {value for values in found.values() for value in values}
