"""`tail` says what it waits for before TensorBoard has written anything."""

from __future__ import annotations

import pytest

from pipeline.verbs.tail import waiting_words
from remote.protocol.jobs import JobState, Progress, RunSurvey

FLUSH = (
    "TensorBoard writes the first values after ten values, a flush, or two minutes; "
    "a script without a tracker writes none: pipeline logs -f r shows its output"
)


@pytest.mark.parametrize(
    ("progress", "waits", "at"),
    [
        (Progress(4, 60), "", "step 4 of 60"),
        (None, "", "no optimizer step yet"),
        (None, "waits for other to end", "waits for other to end"),
    ],
)
def test_the_step_of_the_job_is_shown(progress: Progress | None, waits: str, at: str) -> None:
    run = RunSurvey("r", "c", "f", 1, JobState.RUNNING, progress=progress, waits=waits)
    assert waiting_words("r", run, new=False) == f"waiting for the first scalar of r ({at}); {FLUSH}"
    assert waiting_words("r", run, new=True) == f"waiting for new scalars of r ({at}); {FLUSH}"


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.SUCCEEDED, JobState.STOPPED])
def test_nobody_waits_for_a_job_that_has_ended(state: JobState) -> None:
    assert waiting_words("r", RunSurvey("r", "c", "f", 1, state), new=False) == "reading the scalars of r"
