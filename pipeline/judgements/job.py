"""Judge the end of a run's job. Pure."""

from __future__ import annotations

from dataclasses import replace

from pipeline.judgements.queue_end import judge_queue_end
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.jobs import Checkpoint, JobNews, JobResult, JobState, RunSurvey, WatchNote
from remote.protocol.shell import shell_command

ENDED_EARLY = ("stopped", "preempted")
"""The checks of jobs that were stopped or preempted instead of failing."""
COVERAGE = "adapter-gradient"
NO_CHECKPOINT = "it left no checkpoint"
SHOWN_FILES = 2
FIRST_STEPS = 20
"""The proof makes the check COVERAGE in its two steps, and the live watch makes it again in the first steps."""


def judge_run(run: RunSurvey | None, name: str, resume_command: str = "") -> Report:
    """Return a report with one error if the run has not succeeded, or if its newest trainer checkpoint is broken.

    Otherwise, return an empty report. A run that is still running has not succeeded. The hint of a run that can be
    continued is `resume_command`. If it is empty, the hint is `pipeline run`. For a run with a verified checkpoint, or
    with files that its script may load, the hint also names the run by `--resume`, because changed inputs would
    otherwise start a new run.
    """
    kept = newest_kept(run) if run is not None else None
    again = resume_command or _command_to_continue(run, name)
    if run is not None and run.slurm_end and run.state in (JobState.LOST, JobState.ABSENT):
        return Report((judge_queue_end(name, run.slurm_end, again),))
    if run is None or run.state is JobState.ABSENT:
        return Report((_finding("job", f"{name} has not been started", ExitCode.TRAINING, again),))
    if run.state is JobState.RUNNING:
        return Report(
            (
                _finding(
                    "job",
                    f"{name} is still {run.shown_state}",
                    ExitCode.TRAINING,
                    shell_command("pipeline attach {}", name),
                ),
            )
        )
    if run.state is JobState.LOST:
        return Report((_lost(name, run.restarted, again),))
    if run.state in (JobState.FAILED, JobState.STOPPED):
        if run.result is None:
            message = f"{name} ended, but the host sent no result"
            return Report((_finding("job", message, ExitCode.CONNECT, again),))
        return Report((_failure(name, run.result, kept, again, describe_no_checkpoint(run, NO_CHECKPOINT)),))
    newest = max(run.checkpoints, key=lambda checkpoint: checkpoint.step, default=None)
    if newest is not None and newest.problem:
        message = f"{name}: {newest.name} is broken: {newest.problem}"
        return Report((_finding("checkpoint", message, ExitCode.CHECKPOINT, again),))
    return Report()


def stopped_as_warnings(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings, with those of jobs that were stopped or preempted as warnings with the same exit codes."""
    return tuple(replace(one, severity=Severity.WARNING) if one.check in ENDED_EARLY else one for one in findings)


def judge_watched(name: str, watched: tuple[WatchNote, ...], reported: tuple[Finding, ...] = ()) -> tuple[Finding, ...]:
    """Return a finding for each warning of the live watch that does not repeat a finding in `reported`.

    Its errors end the job and are reported as the job's failure.
    """
    warnings = (note for note in watched if note.severity == "warning" and not is_repeated(reported, note))
    return tuple(Finding.warning(note.check, f"{note.message} (step {note.step})", name) for note in warnings)


def is_repeated(reported: tuple[Finding, ...], note: WatchNote) -> bool:
    """Return True if the note is a COVERAGE warning of the first steps, and `reported` has a COVERAGE warning too."""
    early = note.check == COVERAGE and note.severity == "warning" and note.step <= FIRST_STEPS
    return early and any((one.check, one.severity) == (COVERAGE, Severity.WARNING) for one in reported)


def newest_kept(run: RunSurvey) -> int | None:
    """Return the step of the newest verified trainer checkpoint, or None if there is none."""
    newest = newest_checkpoint(run)
    return newest.step if newest is not None else None


def newest_checkpoint(run: RunSurvey) -> Checkpoint | None:
    """Return the newest verified trainer checkpoint, or None if there is none."""
    verified = (checkpoint for checkpoint in run.checkpoints if not checkpoint.problem)
    return max(verified, key=lambda checkpoint: checkpoint.step, default=None)


def _command_to_continue(run: RunSurvey | None, name: str) -> str:
    may_continue = run is not None and (run.own_files or newest_kept(run) is not None)
    return shell_command("pipeline run --resume {}", name) if may_continue else "pipeline run"


def describe_no_checkpoint(run: RunSurvey, otherwise: str) -> str:
    """Return `otherwise`, or a text with the newest files that the script of a run saved in its own format."""
    if not run.own_files:
        return otherwise
    shown, others = ", ".join(run.own_files[:SHOWN_FILES]), len(run.own_files) - SHOWN_FILES
    more = f" and {others} more" if others > 0 else ""
    return f"no checkpoint that halfstep can verify; the script's own files: {shown}{more}"


def start_without_checkpoint(start: str, *, own_command: bool) -> str:
    """Return `start` (a text such as 'starts at step 0'), with an exception added for a command of the user's own.

    Such a command may load a file that is unknown to halfstep.
    """
    return f"{start}, unless the command itself resumes from a file in the run's folder" if own_command else start


def _failure(
    name: str, result: JobResult, kept: int | None, again: str = "pipeline run", without: str = NO_CHECKPOINT
) -> Finding:
    """Return the finding of a failed job. `kept` is the step of the checkpoint from which the run can resume.

    `without` is the text for a run without such a checkpoint.
    """
    if result.preempted or result.stopped:
        check = "preempted" if result.preempted else "stopped"
        kept_text = without if kept is None else f"its checkpoint of step {kept} is kept"
        code = ExitCode.TRAINING if kept is None else ExitCode.PREEMPTED
        return _finding(check, f"{name} was {check}; {kept_text}", code, again)
    if result.oom_killed:
        message = f"{name} was killed by the kernel's OOM killer: the host ran out of memory"
        return _finding("oom-killed", message, ExitCode.TRAINING, shell_command("pipeline diagnose {}", name))
    if result.disk_full:
        return _finding("disk-full", f"{name} failed: {result.reason}", ExitCode.DISK, "pipeline hosts check")
    cause = f"signal {result.signal}" if result.signal else f"exit {result.exit}"
    message = f"{name} failed: {result.reason or cause}"
    return _finding("training", message, ExitCode.TRAINING, shell_command("pipeline diagnose {}", name))


def judge_end(name: str, news: JobNews | None) -> Finding | None:
    """Return a finding for the last event of a job, or None if the job succeeded, was stopped or was preempted.

    After a stop or a preemption, the next survey of the host shows the state of the run.
    """
    if news is not None and news.slurm_end and news.state in (JobState.LOST, JobState.ABSENT):
        return judge_queue_end(name, news.slurm_end)
    if news is None or news.state in (JobState.RUNNING, JobState.ABSENT):
        return _finding("job", f"halfstep lost track of {name} before it ended", ExitCode.CONNECT)
    if news.state is JobState.LOST:
        return _lost(name, news.restarted)
    if news.state is not JobState.FAILED or news.result is None or news.result.preempted:
        return None
    return _failure(name, news.result, None)


def _lost(name: str, restarted: bool, again: str = "pipeline run") -> Finding:
    why = "the host was restarted while it was training" if restarted else "it is not running and left no result"
    return _finding("job-lost", f"{name} was lost: {why}", ExitCode.JOB_LOST, again)


def _finding(check: str, message: str, code: ExitCode, hint: str = "pipeline run") -> Finding:
    return Finding.error(check, message, hint=hint, exit_code=code)
