"""Every run of a project as it lies on the host, judged here: state, step, checkpoints, event files, adapter."""

from __future__ import annotations

import os
from typing import List, Tuple

from remote.payload.checkpoints.adapter import adapter_digest
from remote.payload.checkpoints.published import survey_checkpoints
from remote.payload.files.records import read_record
from remote.payload.jobs.state import JobObservation, newest_job, observe_job
from remote.payload.jobs.supervisor_watch import Flags, flags_path
from remote.payload.jobs.watched import read_watched
from remote.payload.output.events import survey_events
from remote.protocol.jobs import JobState, Progress, RunRecord, RunSurvey
from remote.protocol.layout import JobLayout, ProjectLayout, RunLayout


def survey_runs(workdir: str, key: str, *, digests: bool = True) -> Tuple[RunSurvey, ...]:
    """Every run, oldest first; nothing is changed."""
    folder = os.path.join(workdir, ProjectLayout(key).runs)
    found: List[RunSurvey] = []
    for name in _names(folder):
        run = RunLayout(os.path.join(folder, name))
        record = read_record(run.record, RunRecord)
        if record is not None:
            found.append(survey_run(run, record, digests=digests))
    return tuple(sorted(found, key=lambda run: (run.created_unix, run.run)))


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def survey_run(run: RunLayout, record: RunRecord, *, digests: bool) -> RunSurvey:
    """One run now."""
    number = newest_job(run)
    job = run.job(number)
    look = observe_job(run, number)
    now = look.answer
    running = now.state is JobState.RUNNING
    flags = read_record(flags_path(job), Flags) or Flags()
    return RunSurvey(
        run=record.run,
        config=record.config,
        fingerprint=record.fingerprint,
        job=number,
        state=now.state,
        started=now.started,
        result=now.result,
        progress=read_record(run.progress, Progress),
        checkpoints=tuple(survey_checkpoints(run.root, digests=digests)),
        events=survey_events(run.root),
        adapter_sha256=adapter_digest(run),
        orphans=tuple(process.pid for process in look.orphans),
        stalled=running and flags.stalled,
        output_bytes=output_size(job),
        created_unix=record.created_unix,
        warnings=(*flags.warnings, *waiting_words(look)),
        watched=read_watched(run, now.started),
    )


def waiting_words(look: JobObservation) -> Tuple[str, ...]:
    """What Slurm says of a job that it has not begun yet."""
    return (f"waits in Slurm's queue: {look.queue}",) if look.queue and look.answer.started is None else ()


def output_size(job: JobLayout) -> int:
    """Bytes of output so far."""
    try:
        return os.path.getsize(job.output)
    except OSError:
        return 0
