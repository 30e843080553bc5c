"""The number of the next job of a run."""

from __future__ import annotations

import pytest

from pipeline.runs.start import next_number
from remote.protocol.jobs import JobState, RunSurvey


@pytest.mark.parametrize(
    ("run", "number"),
    [
        (None, 1),
        (RunSurvey("r", "c", "f", 0, JobState.ABSENT), 1),
        (RunSurvey("r", "c", "f", 1, JobState.ABSENT), 1),
        (RunSurvey("r", "c", "f", 1, JobState.FAILED), 2),
        (RunSurvey("r", "c", "f", 2, JobState.LOST), 3),
        (RunSurvey("r", "c", "f", 3, JobState.ABSENT), 3),
    ],
)
def test_a_job_number_that_was_reserved_and_never_started_is_used(run: RunSurvey | None, number: int):
    assert next_number(run) == number
