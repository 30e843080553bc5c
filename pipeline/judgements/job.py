"""How a run's job ended, and what that means: judgements over what the host knows of it. All pure."""

from __future__ import annotations

from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.jobs import JobNews, JobResult, JobState, RunSurvey, WatchNote


def judge_run(run: RunSurvey | None, name: str) -> Report:
    """The run is there, ended well, and its newest checkpoint is whole."""
    if run is None or run.state is JobState.ABSENT:
        return Report((_finding("job", f"{name} has not been started", ExitCode.TRAINING),))
    if run.state is JobState.RUNNING:
        return Report((_finding("job", f"{name} is still running", ExitCode.TRAINING),))
    if run.state is JobState.LOST:
        return Report((_lost(name),))
    if run.state is JobState.FAILED:
        assert run.result is not None
        return Report((_failure(name, run.result, newest_kept(run)),))
    newest = max(run.checkpoints, key=lambda checkpoint: checkpoint.step, default=None)
    if newest is not None and newest.problem:
        words = f"{name}: {newest.name} is not whole: {newest.problem}"
        return Report((_finding("checkpoint", words, ExitCode.CHECKPOINT),))
    return Report()


def judge_watched(name: str, watched: tuple[WatchNote, ...]) -> tuple[Finding, ...]:
    """What the live watch warned of; an error of its own is in how the job ended."""
    warned = (note for note in watched if note.severity == "warning")
    return tuple(Finding(note.check, Severity.WARNING, f"{note.message} (step {note.step})", name) for note in warned)


def newest_kept(run: RunSurvey) -> int | None:
    """The step of the newest whole checkpoint, to go on from; None where there is none."""
    return max((checkpoint.step for checkpoint in run.checkpoints if not checkpoint.problem), default=None)


def _failure(name: str, result: JobResult, kept: int | None) -> Finding:
    """How a job ended badly, with the exit code of its kind; `kept` is the step it can go on from."""
    if result.preempted or result.stopped:
        check = "preempted" if result.preempted else "stopped"
        left = "it left no checkpoint" if kept is None else f"its checkpoint of step {kept} is kept"
        code = ExitCode.TRAINING if kept is None else ExitCode.PREEMPTED
        return _finding(check, f"{name} was {check}; {left}", code)
    if result.oom_killed:
        words = f"{name} was killed by the kernel's OOM killer: the host ran out of memory"
        return _finding("oom-killed", words, ExitCode.TRAINING, f"pipeline diagnose {name}")
    how = f"signal {result.signal}" if result.signal else f"exit {result.exit}"
    words = f"{name} failed: {result.reason or how}"
    return _finding("training", words, ExitCode.TRAINING, f"pipeline diagnose {name}")


def judge_end(name: str, news: JobNews | None) -> Finding | None:
    """What the last news of a job says is wrong; None where it ended well, or was ended: what is left, a look tells."""
    if news is None or news.state in (JobState.RUNNING, JobState.ABSENT):
        return _finding("job", f"{name} could not be followed to its end", ExitCode.CONNECT)
    if news.state is JobState.LOST:
        return _lost(name)
    if news.result is None or news.result.stopped or news.result.preempted or news.state is not JobState.FAILED:
        return None
    return _failure(name, news.result, None)


def _lost(name: str) -> Finding:
    return _finding("job-lost", f"{name} was lost: nobody runs it and it left no result", ExitCode.JOB_LOST)


def _finding(check: str, message: str, code: ExitCode, hint: str = "pipeline run") -> Finding:
    return Finding(check, Severity.ERROR, message, "", hint, code)
