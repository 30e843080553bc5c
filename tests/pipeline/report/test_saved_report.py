"""A saved report names the results that exist when its page is rendered."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.messages.outcome import StageOutcome, StageState
from pipeline.records.last_seen import job_last_seen, note_job
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, read_note, write_note
from pipeline.report.model import JobRow, RunReport, Verdict
from pipeline.report.page import curves_of
from pipeline.report.saved import (
    current_report,
    end_of_output,
    render_saved_comparison,
    render_saved_report,
    save_report,
)
from pipeline.runs.secrets import secret_marks
from remote.protocol.events import Scalar
from remote.protocol.gauges import Gauges
from remote.protocol.jobs import JobResult, JobState, Progress
from tests.lab.records import pack_record
from tests.remote.protocol.test_events import event


@pytest.mark.parametrize("made", [(), ("adapter",), ("tensorboard", "adapter")], ids=["none", "adapter", "both"])
def test_only_results_that_exist_are_named(tmp_path: Path, made: tuple[str, ...]) -> None:
    for name in made:
        (tmp_path / name).mkdir()
    page = save_report(tmp_path, RunReport("r", "c", "h", Verdict.FAILED)).read_text()
    assert {name for name in ("tensorboard", "adapter") if str(tmp_path / name) in page} == set(made)


def test_an_adapter_is_named_only_if_it_exists_locally(tmp_path: Path) -> None:
    promised = (("adapter", str(tmp_path / "adapter")),)
    page = save_report(tmp_path, RunReport("r", "c", "h", Verdict.TRAINED, artifacts=promised))
    assert str(tmp_path / "adapter") not in page.read_text()
    (tmp_path / "adapter").mkdir()
    assert str(tmp_path / "adapter") in render_saved_report(tmp_path).read_text()


def recorded(root: Path) -> Path:
    """Return the folder of a run whose second job was detached."""
    write_note(Records(root), RunNote("r", "titan", "c", "key", created_unix=1.0))
    folder = Records(root).run("r", "titan")
    jobs = (JobRow(1, JobState.STOPPED, seconds=60.0), JobRow(2, JobState.RUNNING))
    stages = (StageOutcome("verify", StageState.DONE, 4.0), StageOutcome("train", StageState.RUNNING, 1.0, "goes on"))
    save_report(folder, RunReport("r", "c", "titan", Verdict.RUNNING, stages=stages, jobs=jobs, began_unix=1.0))
    return folder


@pytest.mark.parametrize(
    ("state", "result", "verdict", "stage"),
    [
        (JobState.RUNNING, None, Verdict.RUNNING, StageState.RUNNING),
        (JobState.SUCCEEDED, JobResult(0), Verdict.TRAINED, StageState.DONE),
        (JobState.STOPPED, JobResult(143, stopped=True), Verdict.STOPPED, StageState.STOPPED),
        (JobState.FAILED, JobResult(143, preempted=True), Verdict.STOPPED, StageState.STOPPED),
        (JobState.FAILED, JobResult(1), Verdict.FAILED, StageState.FAILED),
        (JobState.LOST, None, Verdict.LOST, StageState.FAILED),
    ],
)
def test_state_and_time_are_those_of_the_jobs_as_last_seen(
    tmp_path: Path, state: JobState, result: JobResult | None, verdict: Verdict, stage: StageState
) -> None:
    """The hours between the stop and the resume are not part of the time."""
    folder = recorded(tmp_path)
    note_job(folder, state, Progress(9, 60), result, elapsed_s=90.0, started_unix=9e5, number=2, earlier_s=60.0)
    report = current_report(folder)
    assert (report.verdict, report.seconds, [job.state for job in report.jobs]) == (
        verdict,
        90.0,
        [JobState.STOPPED, state],
    )
    assert [one.state for one in report.stages] == [StageState.DONE, stage]
    assert report.is_ongoing is (state is JobState.RUNNING)


def test_a_job_that_the_report_lacks_is_added(tmp_path: Path) -> None:
    """It was started from another laptop."""
    folder = recorded(tmp_path)
    note_job(folder, JobState.RUNNING, elapsed_s=90.0, number=2, earlier_s=60.0)
    note_job(folder, JobState.RUNNING, elapsed_s=95.0, number=3, earlier_s=90.0, waits="waits for other to end")
    report = current_report(folder)
    assert [(job.number, job.seconds) for job in report.jobs] == [(1, 60.0), (2, None), (3, 5.0)]
    assert (report.verdict, report.reason) == (Verdict.QUEUED, "waits for other to end")
    seen = read_note(folder)
    assert seen is not None
    assert report.seconds == job_last_seen(seen, 0.0).elapsed_s == 95.0, "report, status and list show the same time"


def test_a_run_of_which_only_the_record_is_left_has_a_report(tmp_path: Path) -> None:
    folder = recorded(tmp_path)
    (folder / "report.json").write_text("torn")
    note_job(folder, JobState.STOPPED, Progress(9, 60), JobResult(143, stopped=True), elapsed_s=30.0)
    assert "9 of 60 optimizer steps" in render_saved_report(folder).read_text()


def test_the_end_of_the_log_is_what_a_terminal_shows(tmp_path: Path) -> None:
    log = tmp_path / "jobs/1/output.log"
    log.parent.mkdir(parents=True)
    bars = "".join(f"\rtrain: {at}%\n\rbatch: {at}%\x1b[A" for at in range(100))
    log.write_text("x" * 300_000 + "\nloading\n" + bars + "\r\x1b[Ktrained\n\x1b[2K")
    assert end_of_output(tmp_path, ()) == "loading\ntrained"


TRAINED = (JobRow(1, JobState.SUCCEEDED, seconds=153.0),)
BUILT = StageOutcome("environment", StageState.DONE, 480.0, "80 packages")
PROVED = StageOutcome("verify", StageState.DONE, 61.0)


def test_a_stage_that_the_last_command_skipped_keeps_the_time_that_it_took_for_the_run(tmp_path: Path) -> None:
    """The first command built and proved; the second found all that done and followed the job."""
    folder = recorded(tmp_path)
    report = RunReport("r", "c", "titan", Verdict.TRAINED, step=36, stages=(BUILT, PROVED), jobs=TRAINED)
    save_report(folder, report)
    skipped = tuple(
        replace(stage, state=StageState.SKIPPED, seconds=0.0, reason="as before") for stage in (BUILT, PROVED)
    )
    followed = StageOutcome("train", StageState.DONE, 91.0)
    page = save_report(folder, replace(report, stages=(*skipped, followed))).read_text()
    assert current_report(folder).stages[:2] == (BUILT, PROVED)
    assert "8\u00a0min\u00a00\u00a0s" in page and "1\u00a0min\u00a01\u00a0s" in page
    assert "1\u00a0min\u00a031\u00a0s" not in page, "the time for which the second command followed the job"
    assert page.count("2\u00a0min\u00a033\u00a0s") == 3, "in the summary, the figures and the stage"


@pytest.mark.parametrize("state", [StageState.DONE, StageState.FAILED])
def test_a_stage_that_ran_again_has_its_newest_outcome(tmp_path: Path, state: StageState) -> None:
    folder = recorded(tmp_path)
    report = RunReport("r", "c", "titan", Verdict.TRAINED, stages=(PROVED,), jobs=TRAINED)
    save_report(folder, report)
    again = StageOutcome("verify", state, 3.0)
    save_report(folder, replace(report, stages=(again,)))
    assert current_report(folder).stages == (again,)


def test_a_stage_that_no_command_ran_for_this_run_stays_skipped(tmp_path: Path) -> None:
    folder = recorded(tmp_path)
    skipped = StageOutcome("environment", StageState.SKIPPED)
    save_report(folder, RunReport("r", "c", "titan", Verdict.TRAINED, stages=(skipped,), jobs=TRAINED))
    assert current_report(folder).stages == (skipped,)


@pytest.mark.parametrize(("first", "said"), [(None, True), (40, False)], ids=["from the start", "resumed"])
def test_a_script_without_event_files_has_the_losses_that_its_job_recorded(
    tmp_path: Path, first: int | None, said: bool
) -> None:
    folder = recorded(tmp_path)
    jobs = (JobRow(1, JobState.SUCCEEDED, first_step=first, seconds=1.0),)
    save_report(folder, RunReport("r", "c", "titan", Verdict.TRAINED, jobs=jobs))
    seen = Progress(48, 48, loss=0.5)
    note_job(folder, JobState.SUCCEEDED, seen, JobResult(0), Gauges(losses=(4.0, 2.0, 1.0, 0.5)), number=1)
    page = render_saved_report(folder).read_text()
    assert "<h2>Training</h2>" in page and "no event file has a curve named loss" in page
    assert "Drag across a curve" in page and "Thick line" not in page, "the curve of means is one line"
    steps = json.dumps([12, 24, 36, 48] if first is None else [42, 44, 46, 48], separators=(",", ":"))
    assert f'"steps":{steps}' in page and '"values":[4,2,1,0.5]' in page
    assert ("The loss fell from" in page) is said


def test_the_losses_in_event_files_are_drawn_instead_of_the_recorded_ones() -> None:
    report = RunReport("r", "c", "h", Verdict.TRAINED, step=48, losses=(4.0, 2.0))
    assert [curve.tag for curve in curves_of(report)] == ["mean_loss"]
    written = replace(report, scalars=(Scalar("train/loss", 1, 3.0, 1.0, "e"),))
    assert [curve.tag for curve in curves_of(written)] == ["train/loss"]
    assert curves_of(replace(report, step=None)) == ()


@pytest.mark.parametrize(("steps", "drawn"), [((10, 46), (10, 46, 48)), ((10, 48), (10, 48)), ((), (24, 48))])
def test_the_recorded_losses_end_with_the_loss_that_status_shows(
    steps: tuple[int, ...], drawn: tuple[int, ...]
) -> None:
    report = RunReport("r", "c", "h", Verdict.TRAINED, step=48, loss=1.5, losses=(4.0, 2.0), loss_steps=steps)
    [curve] = curves_of(report)
    assert tuple(step for step, _ in curve.points) == drawn
    assert curve.last == (1.5 if len(drawn) == 3 else 2.0)


@pytest.mark.parametrize(
    ("steps", "jobs", "drawn"),
    [
        ((6, 48), (), ((1, 13.5), (6, 90.0), (48, 40.0))),
        ((1, 48), (), ((1, 90.0), (48, 40.0))),
        ((), (), ((1, 13.5), (24, 90.0), (48, 40.0))),
        ((), (JobRow(2, JobState.SUCCEEDED, first_step=40),), ((44, 90.0), (48, 40.0))),
    ],
    ids=["sampled-late", "from-the-first-step", "steps-unknown", "earlier-steps-unknown"],
)
def test_the_recorded_losses_begin_with_the_first_loss_that_the_report_names(steps, jobs, drawn) -> None:
    report = RunReport("r", "c", "h", Verdict.TRAINED, step=48, loss=40.0, first_loss=13.5, losses=(90.0, 40.0))
    [curve] = curves_of(replace(report, loss_steps=steps, jobs=jobs))
    assert curve.points == drawn


SECRET_REPORT = RunReport("r", "c", "h", Verdict.FAILED, reason="login with correct-horse failed", secrets=("MY_KEY",))


def with_output(folder: Path) -> Path:
    log = folder / "jobs/1/output.log"
    log.parent.mkdir(parents=True)
    log.write_text("key=correct-horse\n")
    return folder


def test_a_saved_report_shows_no_secret_where_the_variable_is_not_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "correct-horse")
    save_report(with_output(tmp_path), SECRET_REPORT)
    saved = (tmp_path / "report.json").read_text()
    assert "correct-horse" not in saved and "login with *** failed" in saved
    monkeypatch.delenv("MY_KEY")
    page = render_saved_report(tmp_path).read_text()
    assert "correct-horse" not in page and "key=***" in page


@pytest.mark.parametrize("value", [None, ""])
def test_an_output_that_cannot_be_masked_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.setenv("MY_KEY", value or "")
    if value is None:
        monkeypatch.delenv("MY_KEY")
    page = save_report(with_output(tmp_path), replace(SECRET_REPORT, reason="")).read_text()
    assert "correct-horse" not in page and "the value of MY_KEY in this job is not known here" in page


def test_a_secret_that_is_the_name_of_a_state_leaves_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "failed")
    save_report(tmp_path, SECRET_REPORT)
    assert current_report(tmp_path).verdict is Verdict.FAILED


def test_the_report_of_a_run_without_a_saved_one_masks_the_secrets_of_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "correct-horse")
    write_note(Records(tmp_path), RunNote("r", "titan", "c", "key", created_unix=1.0, secrets=("MY_KEY",)))
    folder = with_output(Records(tmp_path).run("r", "titan"))
    page = render_saved_report(folder).read_text()
    assert "correct-horse" not in page and "key=***" in page


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("saved", [True, False])
def test_a_variable_with_another_value_than_that_of_the_job_reveals_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: bool, attached: bool
) -> None:
    monkeypatch.setenv("MY_KEY", "correct-horse")
    note = RunNote(
        "r", "titan", "c", "key", created_unix=1.0, secrets=("MY_KEY",), secret_marks=secret_marks(["MY_KEY"])
    )
    write_note(Records(tmp_path), note)
    folder = with_output(Records(tmp_path).run("r", "titan"))
    if saved:
        save_report(folder, SECRET_REPORT)
    monkeypatch.setenv("MY_KEY", "rotated-value")
    if attached:
        marks = secret_marks(["MY_KEY"])
        write_note(Records(tmp_path), RunNote("r", "titan", "c", "key", 2.0, secrets=("MY_KEY",), secret_marks=marks))
    page = render_saved_report(folder).read_text()
    assert "correct-horse" not in page
    assert ("key=***" if saved else "the value of MY_KEY in this job is not known here") in page


def test_a_secret_is_masked_in_the_names_of_curves_and_in_a_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "correct-horse")
    points = (event(tag="loss/correct-horse", step=step, simple_value=1.0) for step in (1, 2, 3))
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "tensorboard/events.out.tfevents.1").write_bytes(b"".join(map(pack_record, points)))
    page = save_report(tmp_path, SECRET_REPORT).read_text()
    assert "loss/***" in page and "correct-horse" not in page
    render_saved_comparison([tmp_path, tmp_path], tmp_path / "both.html")
    assert "correct-horse" not in (tmp_path / "both.html").read_text()
