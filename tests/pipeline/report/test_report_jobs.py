"""Every job of a run in its report, from the host's survey."""

from __future__ import annotations

import pytest

from pipeline.judgements.job import judge_watched
from pipeline.report.compose import jobs_of, merge_findings
from pipeline.report.model import JobRow
from pipeline.report.sections import jobs
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobResult, JobState, Progress, RunSurvey, StartAnswer, Started, WatchNote


def test_an_earlier_job_is_reported_with_its_own_outcome() -> None:
    began = Started(7, 1, "boot", started_unix=100.0)
    known = (
        StartAnswer("r", 1, JobState.LOST, fresh=False, started=began),
        StartAnswer(
            "r", 2, JobState.STOPPED, False, began, JobResult(143, stopped=True, reason="stopped", ended_unix=160)
        ),
        StartAnswer("r", 3, JobState.RUNNING, fresh=False, started=began),
    )
    run = RunSurvey("r", "c", "f", 3, JobState.SUCCEEDED, began, JobResult(0, ended_unix=130.0), Progress(60))
    rows = jobs_of(run, known)
    assert [(row.number, row.state) for row in rows] == [
        (1, JobState.LOST),
        (2, JobState.STOPPED),
        (3, JobState.SUCCEEDED),
    ]
    assert [(row.seconds, row.reason, row.last_step) for row in rows] == [
        (None, "", None),
        (60.0, "stopped", None),
        (30.0, "", 60),
    ]


def test_a_later_job_begins_where_its_optimizer_did() -> None:
    run = RunSurvey("r", "c", "f", 2, JobState.RUNNING, progress=Progress(74, 90, began=0))
    assert [(row.first_step, row.last_step) for row in jobs_of(run, ())] == [(0, 74)]


def test_earlier_jobs_that_the_host_does_not_report_are_left_out() -> None:
    [row] = jobs_of(RunSurvey("r", "c", "f", 3, JobState.RUNNING), ())
    assert (row.number, row.state) == (3, JobState.RUNNING)


def test_notes_of_the_watch_are_in_the_report_once_even_without_a_follower() -> None:
    watched = judge_watched("r", (WatchNote("memory-creep", "warning", "300 MiB more", 80),))
    other = Finding("autocast", Severity.WARNING, "off")
    fine = Finding("sync", Severity.INFO, "well")
    assert merge_findings((other, fine), watched) == (other, *watched)
    assert merge_findings((other, *watched), watched) == (other, *watched)


@pytest.mark.parametrize(
    ("row", "span"),
    [
        (JobRow(1, JobState.FAILED, last_step=280), "steps 0 to 280"),
        (JobRow(2, JobState.FAILED, last_step=3000), "to step 3000"),
        (JobRow(2, JobState.FAILED, first_step=280, last_step=3000), "steps 280 to 3000"),
        (JobRow(2, JobState.FAILED, first_step=0, last_step=74), "steps 0 to 74, started again"),
    ],
)
def test_the_first_step_of_a_resumed_job_is_not_invented(row: JobRow, span: str) -> None:
    assert f">{span}<" in jobs((row,))
