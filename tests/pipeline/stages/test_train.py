"""A training is started once, found again by its name, and never runs twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.records.find_run import find_note
from pipeline.records.run_inputs import read_inputs, write_inputs
from pipeline.records.runs import list_notes, write_start
from pipeline.runs.new_run import inputs_of
from pipeline.runs.run_id import run_id
from pipeline.runs.start import note_of
from pipeline.stages.new_run import announce_missing_run
from pipeline.stages.stage import Context, Phase, RunOptions
from pipeline.stages.train import Train, commands_for, interrupted_result
from remote.errors import Busy
from remote.project.scan import scan_project
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import (
    Checkpoint,
    JobNews,
    JobResult,
    JobState,
    Progress,
    ResumePoint,
    StartAnswer,
    WatchNote,
)
from remote.protocol.values import encode
from tests.lab.fake_host import FakeHost
from tests.pipeline.listeners import NoListener
from tests.pipeline.stages.failed_host import failing
from tests.pipeline.views import run_in, view_of


def test_a_run_that_ended_well_is_found_and_not_trained_again(tmp_path: Path) -> None:
    host, view = FakeHost(), view_of(tmp_path)
    done = Train().run(Context(host, view, NoListener()))
    assert done.report.ok
    assert "found" in done.reason
    assert host.calls == [], "a host that refuses everything was asked for nothing"
    run = view.survey.runs[0].run
    assert find_note(view.records, None).run == run
    recorded = read_inputs(view.records.run(run, view.host.name))
    assert recorded is not None, "without them, the next new run could not name the files that differ"


@pytest.mark.parametrize("force", ["train", "verify", "sync"])
def test_forcing_the_training_while_its_job_runs_is_rejected(tmp_path: Path, force: str) -> None:
    view = view_of(tmp_path, JobState.RUNNING)
    with pytest.raises(Busy) as refused:
        Train().run(Context(FakeHost(), view, NoListener(), RunOptions(force=force)))
    assert refused.value.hint == f"pipeline stop {view.survey.runs[0].run}"


class NoteListener(NoListener):
    """A listener that records every note."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str, command: str = "") -> None:
        self.notes.append(text)


def test_ctrl_c_during_the_start_reports_that_the_run_may_have_started(tmp_path: Path) -> None:
    def press_ctrl_c(args: object) -> object:
        raise KeyboardInterrupt

    view, listener = view_of(tmp_path, None), NoteListener()
    host = FakeHost(operations={"job.start": press_ctrl_c})
    with pytest.raises(KeyboardInterrupt):
        Train().run(Context(host, view, listener))
    run = find_note(view.records, None).run
    assert listener.notes == [
        f"{run} may have started",
        f"  pipeline attach {run}",
        f"  pipeline status {run}",
        f"  pipeline stop {run}",
    ]


def test_a_detached_start_prints_once_that_the_job_continues_and_then_how_to_attach(
    tmp_path: Path,
) -> None:
    view, listener = view_of(tmp_path, None), NoteListener()
    done = Train().run(Context(failing(b""), view, listener, RunOptions(detach=True)))
    run = find_note(view.records, None).run
    assert listener.notes == [], "a line printed beside the spinner leaves it on the screen"
    assert done.reason == f"{run} keeps running on the host"
    assert done.follow_up == (f"  pipeline attach {run}", f"  pipeline status {run}", f"  pipeline stop {run}")


def test_the_last_of_several_started_runs_is_the_newest_although_the_first_is_followed(tmp_path: Path) -> None:
    view = view_of(tmp_path, None)
    views = [replace(view, loaded=load_config("plain", tmp_path, [f"env.N='{n}'"])) for n in (1, 2)]
    detached, followed = RunOptions(detach=True, phase=Phase.START), RunOptions(phase=Phase.FOLLOW)
    for view in views:
        Train().run(Context(failing(b""), view, NoListener(), detached))
    newest = run_id(views[1])
    assert find_note(views[0].records, None).run == newest
    Train().run(Context(failing(b""), views[0], NoListener(), followed))
    assert [note.run for note in list_notes(views[0].records)] == [newest, run_id(views[0])]
    assert find_note(views[0].records, None).run == newest


class InterruptingListener(NoListener):
    """Presses Ctrl-C when the first step is reported."""

    def training(self, news: JobNews) -> None:
        if news.progress is not None:
            raise KeyboardInterrupt


def training(*news: JobNews) -> FakeHost:
    """Return a host on which a job starts and prints `news`."""
    started = encode(StartAnswer("r", 1, JobState.RUNNING, True))
    return FakeHost(operations={"job.start": lambda args: started}, streams={"job.wait": [encode(one) for one in news]})


def test_detaching_from_a_training_prints_how_to_reattach_and_records_its_step(tmp_path: Path) -> None:
    view = view_of(tmp_path, None)
    done = Train().run(
        Context(training(JobNews(1, JobState.RUNNING, Progress(7, 60, 1.5))), view, InterruptingListener())
    )
    note = find_note(view.records, None)
    assert (done.exit_code, done.unfinished) == (ExitCode.INTERRUPTED, True)
    [finding] = done.report.findings
    assert (finding.check, finding.hint) == ("interrupted", f"pipeline attach {note.run}")
    assert (note.state, note.step, note.steps, note.loss) == (JobState.RUNNING, 7, 60, 1.5)
    assert note.seen_unix > 0


@pytest.mark.parametrize(
    ("news", "state", "step"),
    [
        ((), JobState.RUNNING, None),
        ((JobNews(1, JobState.SUCCEEDED, Progress(60, 60), JobResult(0)),), JobState.SUCCEEDED, 60),
        ((JobNews(1, JobState.LOST, Progress(9, 60)),), JobState.LOST, 9),
    ],
    ids=["no news", "ended", "lost"],
)
def test_a_started_run_is_not_recorded_as_absent(
    tmp_path: Path, news: tuple[JobNews, ...], state: JobState, step: int | None
) -> None:
    view = view_of(tmp_path, None)
    Train().run(Context(training(*news), view, NoListener()))
    [note] = list_notes(view.records)
    assert (note.state, note.step) == (state, step)


def test_a_warning_of_the_watch_is_shown_when_it_arrives_and_kept(tmp_path: Path) -> None:
    creep = WatchNote("memory-creep", "warning", "memory use has grown by 300 MiB in 40 steps", 80)
    slow = WatchNote("skipped-steps", "warning", "11 of the last 50 steps were skipped", 90)
    news = (
        JobNews(1, JobState.RUNNING, Progress(80, 100), watched=(creep,)),
        JobNews(1, JobState.RUNNING, Progress(90, 100), watched=(creep, slow)),
        JobNews(1, JobState.SUCCEEDED, Progress(100, 100), JobResult(0), watched=(creep, slow)),
    )
    listener = NoteListener()
    done = Train().run(Context(training(*news), view_of(tmp_path, None), listener))
    warnings = [line for line in listener.notes if line.startswith("warning")]
    assert [line.rpartition("  ")[2] for line in warnings] == ["[memory-creep]", "[skipped-steps]"]
    assert done.report.ok
    assert [(finding.check, "step" in finding.message) for finding in done.report.findings] == [
        ("memory-creep", True),
        ("skipped-steps", True),
    ]


IDLE = WatchNote("adapter-gradient", "warning", "1 trained tensors got no gradient in 3 steps: expert.weight", 3)
PROVED = Finding.warning("adapter-gradient", "1 of 4 trained tensors got no gradient in 2 steps", "expert.weight")


@pytest.mark.parametrize(
    ("earlier", "reported"),
    [
        ((PROVED,), 0),
        ((), 1),
        ((replace(PROVED, severity=Severity.INFO),), 1),
        ((replace(PROVED, check="loss-zero"),), 1),
    ],
)
def test_adapter_gradient_is_not_reported_by_the_watch_if_verify_has_just_reported_it(
    tmp_path: Path, earlier: tuple[Finding, ...], reported: int
) -> None:
    news = (
        JobNews(1, JobState.RUNNING, Progress(3, 60), watched=(IDLE,)),
        JobNews(1, JobState.SUCCEEDED, Progress(60, 60), JobResult(0), watched=(IDLE,)),
    )
    listener = NoteListener()
    context = Context(training(*news), view_of(tmp_path, None), listener, findings=[*earlier])
    done = Train().run(context)
    assert [finding.check for finding in done.report.findings] == ["adapter-gradient"] * reported
    assert sum("adapter-gradient" in line for line in listener.notes) == reported


def test_the_files_that_make_a_new_run_are_named_before_its_job_is_started(tmp_path: Path) -> None:
    view, listener = view_of(tmp_path, None), NoteListener()
    write_start(view.records, note_of(view, "plain-0011aabb"))
    inputs = replace(inputs_of(view), files={"train.py": "0" * 64})
    write_inputs(view.records.run("plain-0011aabb", view.host.name), inputs)
    host = training(JobNews(1, JobState.SUCCEEDED, Progress(60, 60), JobResult(0)))
    start = host.operations["job.start"]
    host.operations["job.start"] = lambda args: listener.note("job.start") or start(args)
    Train().run(Context(host, view, listener))
    first, changed, started = listener.notes
    assert first.endswith("because these inputs differ from plain-0011aabb:")
    assert (changed, started) == ("  train.py (changed)", "job.start")


@pytest.mark.parametrize(
    ("script", "began", "seen", "notes"),
    [
        (
            "print('training')",
            0,
            WatchNote("resume", "warning", "started again at step 0", 1),
            ["the script gets its path as HALFSTEP_RESUME_FROM", "will probably start again", "warning: started again"],
        ),
        (
            "import os; os.environ['HALFSTEP_RESUME_FROM']",
            90,
            WatchNote("resume", "info", "resumed at step 90", 91),
            ["the script gets its path as HALFSTEP_RESUME_FROM", "resumed at step 90"],
        ),
    ],
    ids=["ignored", "taken"],
)
def test_a_checkpoint_is_offered_and_the_first_step_shows_whether_it_was_used(
    tmp_path: Path, script: str, began: int, seen: WatchNote, notes: list[str]
) -> None:
    view = view_of(tmp_path, JobState.FAILED)
    (tmp_path / "train.py").write_text(script)
    view = replace(view, scan=scan_project(tmp_path))
    saved = Checkpoint("checkpoints/checkpoint-90", 90)
    run = replace(run_in(view, JobState.FAILED), checkpoints=(saved,))
    view = view.with_survey(replace(view.survey, runs=(run,)))
    first = JobNews(2, JobState.RUNNING, Progress(began + 1, 120, began=began), watched=(seen,))
    last = replace(first, state=JobState.SUCCEEDED, progress=Progress(120, 120, began=began), result=JobResult(0))
    host = training(first, last)
    host.operations["checkpoints.prepare"] = lambda args: encode(ResumePoint("/runs/r/checkpoint-90", saved))
    listener = NoteListener()
    done = Train().run(Context(host, view, listener))
    assert not any("resuming" in line for line in listener.notes)
    for words, line in zip(notes, listener.notes, strict=True):
        assert words in line
    assert ("(resumed at step 90)" in done.reason) is (began == 90)
    assert [finding.check for finding in done.report.findings] == (["resume"] if began == 0 else [])


def test_ctrl_c_names_each_command_that_reaches_the_run_once() -> None:
    result = interrupted_result("tiny-1")
    hints = [finding.hint for finding in result.report.findings]
    text = "\n".join([result.reason, *(one.message for one in result.report.findings), *hints, *result.follow_up])
    assert [text.count(f"pipeline {verb} tiny-1") for verb in ("attach", "status", "stop")] == [1, 1, 1]
    assert text.count("keeps running") == 1
    assert len(set(commands_for("tiny-1"))) == 3


@pytest.mark.parametrize(
    ("state", "step", "own", "said"),
    [(None, 19, True, True), (None, None, True, False), (None, 19, False, False), (JobState.FAILED, 19, True, False)],
    ids=["gone from the host", "never trained", "record of another user", "still on the host"],
)
def test_a_run_whose_files_are_gone_from_its_host_starts_again_with_a_note(
    tmp_path: Path, state: JobState | None, step: int | None, own: bool, said: bool
) -> None:
    view, listener = view_of(tmp_path, state), NoteListener()
    note = note_of(view, run_id(view))
    write_start(view.records, replace(note, step=step, own=own))
    announce_missing_run(Context(FakeHost(), view, listener))
    name = view.records.run_name(note.run, view.host.name)
    text = f"{name} had reached step 19, but its files are not on {view.host.name} any more: it starts at step 0"
    assert listener.notes == ([text] if said else [])
