"""How `stop` describes a run that it has just stopped, and one that had ended before."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from pipeline.judgements.job import judge_run
from pipeline.messages.outcome import job_outcome
from pipeline.records.runs import RunNote
from pipeline.verbs.stop import describe_restart, describe_stop, judge_left, judge_still_running
from remote.protocol.exits import ExitCode
from remote.protocol.job_requests import StopAnswer
from remote.protocol.jobs import Checkpoint, JobResult, JobState, Progress, RunSurvey, Started, judge_state

BEGUN = Started(1, 1, "boot")
NOTE = RunNote("r-1", "titan", "c", "p-1", 0.0, name="r-1")


@pytest.mark.parametrize(
    ("was_alive", "result", "words"),
    [
        (True, JobResult(143, stopped=True), "r was stopped at step 5 of 60; newest checkpoint: step 4"),
        (False, JobResult(143, stopped=True), "r is not running (stopped at step 5 of 60); newest checkpoint: step 4"),
        (True, JobResult(1), "r is not running (failed at step 5 of 60); newest checkpoint: step 4"),
    ],
)
def test_a_job_that_was_just_stopped_is_reported_as_stopped(was_alive: bool, result: JobResult, words: str) -> None:
    checkpoints = (Checkpoint("checkpoint-4", 4),)
    state = judge_state(started=None, result=result, alive=False)
    run = RunSurvey("r", "c", "f", 1, state, BEGUN, result, Progress(5, 60), checkpoints)
    assert describe_stop("r", run, was_alive) == words


def test_a_run_with_processes_on_another_machine_was_not_stopped() -> None:
    run = RunSurvey("r", "c", "f", 1, JobState.RUNNING, BEGUN, None, Progress(5, 60))
    assert describe_stop("r", run, True) == "r still runs at step 5 of 60; it has no verified checkpoint"
    (finding,) = judge_still_running("login2", NOTE)
    assert (finding.check, finding.exit_code) == ("not-stopped", ExitCode.BUSY)
    assert "(login2)" in finding.message


def test_a_run_whose_supervisor_does_not_react_is_not_said_to_be_elsewhere() -> None:
    (finding,) = judge_still_running("", NOTE)
    assert "another machine" not in finding.message
    assert finding.hint == "pipeline stop --grace 0 r-1"


def test_a_run_without_steps_or_checkpoints_is_described_as_such() -> None:
    run = RunSurvey("r", "c", "f", 1, JobState.STOPPED, BEGUN, JobResult(143, stopped=True))
    assert describe_stop("r", run, True) == "r was stopped; it has no verified checkpoint"
    queued = replace(run, started=None)
    assert describe_stop("r", queued, True) == "r was stopped before it began; it has no verified checkpoint"
    assert describe_restart(run, NOTE) == "to start again at step 0: pipeline run --host titan --config c"


@pytest.mark.parametrize(
    ("checkpoints", "said"),
    [
        ((), "to start again at step 0, unless the command itself resumes from a file in the run's folder: pipeline "),
        ((Checkpoint("c", 4),), "to resume: pipeline run --host titan --config c --resume r-1"),
    ],
    ids=["none", "verified"],
)
def test_a_command_of_the_users_own_may_resume_without_a_checkpoint(
    checkpoints: tuple[Checkpoint, ...], said: str
) -> None:
    run = RunSurvey("r", "c", "f", 1, JobState.STOPPED, BEGUN, JobResult(143, stopped=True), checkpoints=checkpoints)
    assert describe_restart(run, replace(NOTE, own_command=True)).startswith(said)


@pytest.mark.parametrize(
    ("checkpoints", "start"),
    [((), "to start again"), ((Checkpoint("c", 4),), "to resume"), ((Checkpoint("c", 4, problem="x"),), "to start")],
)
def test_only_a_run_with_a_usable_checkpoint_is_resumed(checkpoints: tuple[Checkpoint, ...], start: str) -> None:
    run = RunSurvey("r", "c", "f", 1, JobState.STOPPED, None, JobResult(143, stopped=True), Progress(5), checkpoints)
    said = describe_restart(run, NOTE)
    assert said.startswith(start)
    assert said.endswith(" --resume r-1") is (start == "to resume"), "with changed inputs, `run` alone starts a new run"


def test_the_step_of_a_stopped_run_is_that_of_its_newest_complete_checkpoint() -> None:
    checkpoints = (Checkpoint("checkpoint-8", 8), Checkpoint("checkpoint-9", 9, problem="cut short"))
    run = RunSurvey("r", "c", "f", 1, JobState.STOPPED, BEGUN, JobResult(143, stopped=True), Progress(5), checkpoints)
    assert describe_stop("r", run, True) == "r was stopped at step 8; newest checkpoint: step 8"
    assert job_outcome(run).step == 8
    assert job_outcome(replace(run, state=JobState.RUNNING, result=None)).step == 5


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (("code/chkpt/tiny_0001.pt",), "code/chkpt/tiny_0001.pt"),
        (("code/a.pt", "code/b.pt"), "code/a.pt, code/b.pt"),
        (("code/a.pt", "code/b.pt", "code/c.pt", "code/d.pt"), "code/a.pt, code/b.pt and 2 more"),
    ],
)
def test_files_of_the_script_are_named_without_a_verified_checkpoint(files: tuple[str, ...], words: str) -> None:
    run = RunSurvey("r", "c", "f", 1, JobState.STOPPED, BEGUN, JobResult(143, stopped=True), own_files=files)
    kept = f"no checkpoint that halfstep can verify; the script's own files: {words}"
    assert describe_stop("r", run, True) == f"r was stopped; {kept}"
    assert describe_restart(run, replace(NOTE, own_command=True)).endswith("--resume r-1")
    (finding,) = judge_run(run, "r-1").findings
    assert finding.message == f"r-1 was stopped; {kept}" and finding.hint == "pipeline run --resume r-1"


@pytest.mark.parametrize(
    ("numbers", "processes", "jobs", "cancel"),
    [
        (
            (7,),
            "process 7 has not ended after SIGKILL: it is blocked in the driver or the file system",
            "job 7 of the command is cancelled",
            "scancel 7   (on titan)",
        ),
        (
            (7, 9),
            "2 processes (7, 9) have not ended after SIGKILL: they are blocked in the driver or the file system",
            "2 jobs of the command (7, 9) are cancelled",
            "squeue --me   (on titan)",
        ),
        (
            tuple(range(12)),
            "12 processes (0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more) have not ended after SIGKILL: they are blocked in "
            "the driver or the file system",
            "12 jobs of the command (0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more) are cancelled",
            "squeue --me   (on titan)",
        ),
    ],
)
def test_processes_and_slurm_jobs_that_are_left_are_one_finding_each(
    numbers: tuple[int, ...], processes: str, jobs: str, cancel: str
) -> None:
    run = RunSurvey("r", "c", "f", 1, JobState.STOPPED, BEGUN, JobResult(143, stopped=True))
    answer = StopAnswer("r", 1, JobState.STOPPED, left=numbers, slurm_left=numbers)
    left, slurm = judge_left(answer, run, NOTE, was_alive=True)
    assert (left.check, left.message, left.exit_code) == ("unkillable", processes, ExitCode.BUSY)
    assert slurm.message == f"Slurm has not confirmed that {jobs}"
    assert (slurm.hint, slurm.exit_code) == (cancel, ExitCode.BUSY)
    assert judge_left(answer, run, NOTE, was_alive=False) == (slurm,)
    assert judge_left(replace(answer, left=(), slurm_left=()), run, NOTE, was_alive=True) == ()


@pytest.mark.parametrize("size", [101, 900_000])
def test_SE_a_host_that_claims_many_jobs_and_processes_does_not_fill_the_memory(size: int) -> None:
    run = RunSurvey("r", "c", "f", 1, JobState.STOPPED, BEGUN, JobResult(143, stopped=True))
    answer = StopAnswer("r", 1, JobState.STOPPED, left=tuple(range(size)), slurm_left=tuple(range(size)))
    tracemalloc.start()
    findings = judge_left(answer, run, NOTE, was_alive=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    assert all(f"and {size - 10} more)" in each.message and len(each.message) < 200 for each in findings)
    assert findings[1].hint == "squeue --me   (on titan)"
