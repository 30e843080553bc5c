"""The number of the next job of a run, and the record of a run."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.runs.start import next_number, note_of
from remote.protocol.jobs import JobState, RunSurvey
from tests.pipeline.views import survey_of, view_of


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


@pytest.mark.parametrize(("created_unix", "ago_s"), [(2400.0, 2400.0), (-60.0, 0.0), (None, 0.0)])
def test_a_run_that_was_found_on_the_host_keeps_the_time_of_its_creation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, created_unix: float | None, ago_s: float
) -> None:
    """The clock of a host may be ahead; older hosts send no time."""
    monkeypatch.setattr(time, "time", lambda: 10_000.0)
    view = view_of(tmp_path, JobState.RUNNING)
    [known] = view.survey.runs
    created = 10_000.0 - created_unix if created_unix is not None else 0.0
    found = view.with_survey(survey_of(view.survey.tree, replace(known, created_unix=created)))
    assert note_of(found, known.run).created_unix == 10_000.0 - ago_s
    assert note_of(found, "another-run").created_unix == 10_000.0


def test_the_record_says_whether_the_command_of_the_config_is_the_users_own(tmp_path: Path) -> None:
    view = view_of(tmp_path, JobState.RUNNING)
    for command in (("python", "train.py"), None):
        config = view.config.model_copy(update={"command": command})
        changed = replace(view, loaded=replace(view.loaded, config=config))
        assert note_of(changed, "r").own_command is (command is not None)
