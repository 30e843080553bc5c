"""Warn that a job is queued, or was stopped in the queue: it has no output and no curves."""

from __future__ import annotations

from pipeline.records.runs import RunNote
from remote.protocol.findings import Finding
from remote.protocol.jobs import JobState, RunSurvey
from remote.protocol.shell import shell_command


def judge_begun(note: RunNote, run: RunSurvey) -> tuple[Finding, ...]:
    """Return a warning if the newest job of the run has not begun."""
    if run.has_begun:
        return ()
    if run.state is JobState.RUNNING:
        why = f"it {run.waits}" if run.waits else "it is starting"
        message, hint = f"the job of {note.name} has not begun: {why}", shell_command("pipeline attach {}", note.name)
    elif run.result is not None:
        message, hint = f"the job of {note.name} was {run.state.value} before it began", note.start_command
    else:
        message, hint = f"{note.name} has not been started", note.start_command
    return (Finding.warning("not-begun", message, note.name, hint),)
