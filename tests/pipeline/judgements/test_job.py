"""The finding about an ended job describes its result and its remaining checkpoints."""

from __future__ import annotations

import pytest

from pipeline.judgements.job import judge_end, judge_run, judge_watched, stopped_as_warnings
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import Checkpoint, JobNews, JobResult, JobState, RunSurvey, WatchNote


@pytest.mark.parametrize(
    ("checkpoints", "words", "code"),
    [
        ((), "left no checkpoint", ExitCode.TRAINING),
        ((Checkpoint("checkpoint-8", 8, problem="cut"),), "left no checkpoint", ExitCode.TRAINING),
        ((Checkpoint("checkpoint-8", 8),), "checkpoint of step 8 is kept", ExitCode.PREEMPTED),
        (
            (Checkpoint("checkpoint-8", 8), Checkpoint("checkpoint-9", 9, problem="cut")),
            "checkpoint of step 8 is kept",
            ExitCode.PREEMPTED,
        ),
    ],
)
@pytest.mark.parametrize(
    ("result", "check"), [(JobResult(143, stopped=True), "stopped"), (JobResult(143, preempted=True), "preempted")]
)
def test_the_finding_about_a_stopped_run_lists_what_is_kept(
    checkpoints: tuple[Checkpoint, ...], words: str, code: ExitCode, result: JobResult, check: str
) -> None:
    state = JobState.STOPPED if result.stopped else JobState.FAILED
    run = RunSurvey("r", "c", "f", 1, state, result=result, checkpoints=checkpoints)
    [finding] = judge_run(run, "r").findings
    assert (finding.check, finding.exit_code) == (check, code)
    assert words in finding.message
    [shown] = stopped_as_warnings((finding,))
    assert (shown.severity, exit_code_of([shown], ExitCode.BUG)) == (Severity.WARNING, code)
    assert judge_end("r", JobNews(1, state, result=result)) is None, "only the next look knows what is kept"


@pytest.mark.parametrize(
    ("full", "check", "code"), [(True, "disk-full", ExitCode.DISK), (False, "training", ExitCode.TRAINING)]
)
def test_a_job_that_failed_on_a_full_disk_says_so(full: bool, check: str, code: ExitCode) -> None:
    result = JobResult(1, disk_full=full, reason="exit status 1")
    finding = judge_end("r", JobNews(1, JobState.FAILED, result=result))
    assert finding is not None and (finding.check, finding.exit_code) == (check, code)


def test_the_reason_why_the_watch_ended_a_training_is_reported_once():
    watched = (WatchNote("loss-zero", "error", "0.0", 3), WatchNote("skipped-steps", "warning", "11 of 50", 60))
    [finding] = judge_watched("r", watched)
    assert (finding.check, finding.message, finding.where) == ("skipped-steps", "11 of 50 (step 60)", "r")


@pytest.mark.parametrize(
    ("note", "reported"),
    [
        (WatchNote("adapter-gradient", "warning", "1 tensor", 3), False),
        (WatchNote("adapter-gradient", "warning", "4 tensors since the evaluation", 400), True),
        (WatchNote("loss-finite", "warning", "NaN", 3), True),
    ],
)
def test_only_the_check_of_the_first_steps_repeats_the_proof(note: WatchNote, reported: bool) -> None:
    proved = tuple(Finding.warning(check, "in 2 steps") for check in ("adapter-gradient", "loss-finite"))
    assert bool(judge_watched("r", (note,), proved)) is reported
    assert judge_watched("r", (note,)), "without a proof in the same command, nothing is left out"


@pytest.mark.parametrize("state", [JobState.STOPPED, JobState.LOST])
@pytest.mark.parametrize(
    ("checkpoints", "resume_command", "hint"),
    [
        ((Checkpoint("checkpoint-8", 8),), "", "pipeline run --resume r"),
        ((), "", "pipeline run"),
        ((Checkpoint("checkpoint-8", 8, problem="cut"),), "", "pipeline run"),
        ((), "pipeline evaluate r", "pipeline evaluate r"),
    ],
)
def test_the_hint_continues_the_run_although_its_inputs_may_have_changed(
    state: JobState, checkpoints: tuple[Checkpoint, ...], resume_command: str, hint: str
) -> None:
    result = JobResult(143, stopped=True) if state is JobState.STOPPED else None
    run = RunSurvey("r", "c", "f", 1, state, result=result, checkpoints=checkpoints)
    [finding] = judge_run(run, "r", resume_command).findings
    assert finding.hint == hint


@pytest.mark.parametrize(
    ("restarted", "why"),
    [
        (True, "r was lost: the host was restarted while it was training"),
        (False, "r was lost: it is not running and left no result"),
    ],
)
def test_a_restart_of_the_host_is_the_reason_of_a_lost_run(restarted: bool, why: str) -> None:
    run = RunSurvey("r", "c", "f", 1, JobState.LOST, checkpoints=(Checkpoint("checkpoint-8", 8),), restarted=restarted)
    [finding] = judge_run(run, "r").findings
    assert (finding.message, finding.hint) == (why, "pipeline run --resume r")
    news = judge_end("r", JobNews(1, JobState.LOST, restarted=restarted))
    assert news is not None and news.message == why
