"""Local files of `run` after a training that failed or that was detached."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.actions.run import download_failed_run, losses_of, outcome_of, report_job, runs_the_command
from pipeline.messages.outcome import JobOutcome, StageOutcome, StageState
from pipeline.records.find_run import find_note
from pipeline.records.last_seen import note_job
from pipeline.records.runs import write_note
from pipeline.report.model import JobRow, RunReport, Verdict
from pipeline.report.page import render_report
from pipeline.report.saved import read_report, render_saved_report
from pipeline.runs.run_id import run_id
from pipeline.runs.start import note_of
from pipeline.stages.runner import RunResult
from pipeline.stages.stage import Context, RunOptions
from remote.protocol.events import Scalar
from remote.protocol.exits import ExitCode
from remote.protocol.gauges import Gauges
from remote.protocol.jobs import EventFile, JobState, Progress
from remote.protocol.segments import SEGMENT
from tests.lab.fake_host import FakeHost
from tests.pipeline.listeners import NoListener
from tests.pipeline.views import run_in, survey_of, view_of
from tests.remote.pull.event_records import point

EVENTS = "tensorboard/events.out.tfevents.1"
NO_BREAK = "\u00a0"
TRAIN_FAILED = StageOutcome("train", StageState.FAILED)


def test_event_files_and_output_of_a_failed_training_are_pulled(tmp_path: Path) -> None:
    view = view_of(tmp_path, JobState.FAILED)
    curve = point(1, 4.0)
    ran = run_in(view, JobState.FAILED)
    view = view.with_survey(survey_of(view.survey.tree, replace(ran, events=(EventFile(EVENTS, len(curve)),))))
    host = FakeHost(
        operations={"log.read": lambda args: {}, "events.read": lambda args: {"files": [{"ending": "clean"}]}},
        streams={
            "log.read": [SEGMENT.pack(0, 0, 3) + b"bad"],
            "events.read": [SEGMENT.pack(0, 0, len(curve)) + curve],
        },
    )
    context = Context(host, view, NoListener())
    download_failed_run(context, RunResult([StageOutcome("verify", StageState.FAILED)]))
    assert host.calls == [], "no training has failed"
    download_failed_run(context, RunResult([TRAIN_FAILED]))
    folder = view.records.run(ran.run, "local")
    assert (folder / EVENTS).read_bytes() == curve
    assert (folder / "jobs" / "1" / "output.log").read_bytes() == b"bad"


def test_a_run_whose_record_was_damaged_is_recorded_again(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    run = run_in(view, JobState.SUCCEEDED).run
    note = view.records.run(run, "local") / "run.json"
    note.parent.mkdir(parents=True)
    note.write_text("torn")
    outcome_of(Context(FakeHost(), view, NoListener()), RunResult())
    assert find_note(view.records, run).state is JobState.SUCCEEDED
    before = note.read_bytes()
    outcome_of(Context(FakeHost(), view, NoListener()), RunResult())
    assert note.read_bytes() == before


def test_a_failed_run_whose_host_has_no_data_gets_no_further_finding(tmp_path: Path) -> None:
    ran = RunResult([TRAIN_FAILED])
    download_failed_run(Context(FakeHost(), view_of(tmp_path, JobState.FAILED), NoListener()), ran)
    assert ran.findings == []


def test_a_run_has_a_report_from_the_start_of_its_job(tmp_path: Path) -> None:
    """Another terminal can show it while `run` waits for the job."""
    view = view_of(tmp_path, None)
    name = run_id(view)
    folder = view.records.run(name, "local")
    write_note(view.records, note_of(view, name))
    note_job(folder, JobState.RUNNING, number=1)
    report_job(Context(FakeHost(), view, NoListener(), stages=[StageOutcome("verify", StageState.DONE, 4.0)]))
    report = read_report(folder)
    assert report is not None
    assert [(stage.name, stage.state.value) for stage in report.stages] == [("verify", "done"), ("train", "running")]
    assert (report.verdict, report.jobs) == (Verdict.RUNNING, (JobRow(1, JobState.RUNNING),))
    note_job(folder, JobState.RUNNING, Progress(7, 60), elapsed_s=9.0, number=1)
    assert f"running, step 7 of 60, after 9.0{NO_BREAK}s" in render_saved_report(folder).read_text()


def test_an_interrupted_run_reports_its_stages_its_run_and_its_job(tmp_path: Path) -> None:
    view = view_of(tmp_path, None)
    name = run_id(view)
    context = Context(FakeHost(), view, NoListener())
    stages = [StageOutcome("verify", StageState.DONE), StageOutcome("train", StageState.RUNNING)]
    ran = RunResult(stages, [], ExitCode.INTERRUPTED, acted=True)
    write_note(view.records, note_of(view, name))
    may_have_begun = outcome_of(context, ran)
    assert (may_have_begun.run, may_have_begun.job) == (name, None)
    note_job(view.records.run(name, "local"), JobState.RUNNING, Progress(7, 60))
    outcome = outcome_of(context, ran)
    assert (outcome.exit_code, outcome.run, [stage.name for stage in outcome.stages]) == (
        130,
        name,
        ["verify", "train"],
    )
    assert outcome.job is not None
    assert (outcome.job.state, outcome.job.step) == (JobState.RUNNING, 7)


@pytest.mark.parametrize(
    ("left", "options", "state", "starts"),
    [
        (("logs",), RunOptions(), JobState.SUCCEEDED, False),
        (("train", "logs"), RunOptions(), JobState.SUCCEEDED, False),
        (("train", "logs"), RunOptions(), JobState.RUNNING, False),
        (("train", "logs"), RunOptions(force="train"), JobState.SUCCEEDED, True),
        (("train", "logs"), RunOptions(), JobState.FAILED, True),
        (("verify", "train", "logs"), RunOptions(), JobState.SUCCEEDED, True),
        (("sync",), RunOptions(), None, True),
        (("sync",), RunOptions(until="sync"), None, False),
        (("sync", "environment", "fix"), RunOptions(until="fix"), None, False),
        (("verify",), RunOptions(until="verify"), None, True),
    ],
)
def test_secrets_are_required_only_if_the_command_will_run(
    tmp_path: Path, left: tuple[str, ...], options: RunOptions, state: JobState | None, starts: bool
) -> None:
    assert runs_the_command(Context(FakeHost(), view_of(tmp_path, state), NoListener(), options), left) is starts


def test_the_loss_at_the_end_of_run_is_the_one_that_list_shows(tmp_path: Path) -> None:
    """The mirror may contain another value that the script logs, and `losses` are means over several steps."""
    view = view_of(tmp_path)
    run = replace(run_in(view, JobState.SUCCEEDED), gauges=Gauges(losses=(3.0, 1.0, 0.5)))
    view = view.with_survey(survey_of(view.survey.tree, run))
    write_note(view.records, note_of(view, run.run))
    outcome = outcome_of(Context(FakeHost(), view, NoListener()), RunResult())
    assert losses_of(outcome.job) == [3.0, 1.0, 0.3]
    assert find_note(view.records, run.run).loss == losses_of(outcome.job)[-1]


def test_the_first_loss_is_the_same_in_run_and_in_the_report(tmp_path: Path) -> None:
    """The first value in the event files, and the first mean that the host recorded, may cover several steps."""
    job = JobOutcome(JobState.SUCCEEDED, loss=0.3, first_loss=7.5, losses=(7.1, 1.0, 0.5))
    assert losses_of(job) == [7.5, 1.0, 0.3]
    scalars = tuple(Scalar("train/loss", step, 7.3 - step / 10, float(step)) for step in (5, 6))
    report = RunReport("r", "c", "h", Verdict.TRAINED, step=6, scalars=scalars, loss=0.3, first_loss=7.5)
    assert "from <b>7.5</b>" in re.sub("</?span[^>]*>", "", render_report(report))


@pytest.mark.parametrize("job", [None, JobOutcome(JobState.RUNNING), JobOutcome(JobState.FAILED, losses=(1.0, 2.0))])
def test_a_job_without_a_loss_has_no_curve(job: JobOutcome | None) -> None:
    assert losses_of(job) == []
