"""The last known state of a run's newest job, in the record of the run."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pipeline.messages.outcome import JobOutcome
from pipeline.records.runs import RunNote, read_note, save_note
from remote.protocol.gauges import Gauges
from remote.protocol.jobs import JobResult, JobState, Progress, RunSurvey, seconds_left

ENDED = (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED, JobState.LOST)


def note_seen(folder: Path, run: RunSurvey) -> None:
    """Record the surveyed state of the run's job."""
    started = run.started.started_unix or None if run.started else None
    seen = (run.progress, run.result, run.gauges, run.run_elapsed_s, started)
    note_job(folder, run.state, *seen, number=run.job, waits=run.waits, earlier_s=run.earlier_s)


def note_job(
    folder: Path,
    state: JobState,
    progress: Progress | None = None,
    result: JobResult | None = None,
    gauges: Gauges | None = None,
    elapsed_s: float | None = None,
    started_unix: float | None = None,
    *,
    number: int = 0,
    waits: str = "",
    earlier_s: float = 0.0,
) -> None:
    """Record the state of a job. `number` is the job's number, or 0 for the job in the record.

    `elapsed_s` is the time of all jobs of the run, and `earlier_s` the time of the jobs before this one.
    """
    if (known := read_note(folder)) is None:
        return
    note = known
    if number not in (0, note.job):
        note = replace(note, job=number, started_unix=None, earlier_s=note.elapsed_s or 0.0)
    running = state is JobState.RUNNING
    note = _with_times(_with_progress(note, progress), elapsed_s, earlier_s, started_unix)
    seen = replace(
        _with_gauges(note, gauges, running=running),
        state=state,
        exit=result.exit if result else None,
        stopped=bool(result and result.stopped),
        preempted=bool(result and result.preempted),
        disk_full=bool(result and result.disk_full),
        reason=result.reason if result else "",
        seen_unix=time.time(),
        eta_s=seconds_left(progress) if running else None,
        waits=waits if running else "",
    )
    if state in ENDED and replace(seen, seen_unix=known.seen_unix) == known:
        return
    save_note(folder, seen)


def _with_progress(note: RunNote, progress: Progress | None) -> RunNote:
    if progress is None:
        return note
    return replace(
        note,
        step=progress.step,
        steps=progress.steps,
        loss=progress.loss,
        best_loss=progress.best_loss,
        first_loss=progress.first_loss,
    )


def _with_times(note: RunNote, elapsed_s: float | None, earlier_s: float, started_unix: float | None) -> RunNote:
    note = replace(note, started_unix=started_unix or note.started_unix)
    return replace(note, elapsed_s=elapsed_s, earlier_s=earlier_s) if elapsed_s is not None else note


def _with_gauges(note: RunNote, gauges: Gauges | None, *, running: bool) -> RunNote:
    if gauges is None:
        return replace(note, gpus=())
    if gauges.losses:
        note = replace(note, losses=gauges.losses, loss_steps=gauges.steps)
    return replace(note, gpus=gauges.gpus if running else ())


def job_last_seen(note: RunNote, now_unix: float) -> JobOutcome:
    """Return the recorded state of a run's job, with its age."""
    age = max(0.0, now_unix - note.seen_unix) if note.seen_unix else None
    return JobOutcome(
        note.state if note.seen_unix else JobState.ABSENT,
        note.step,
        note.steps,
        note.exit,
        note.loss,
        age,
        best_loss=note.best_loss,
        first_loss=note.first_loss,
        started_unix=note.started_unix,
        elapsed_s=note.elapsed_s,
        eta_s=note.eta_s,
        gpus=note.gpus,
        waits=note.waits,
        earlier_s=note.earlier_s,
        unit="answer" if note.evaluates else "step",
    )
