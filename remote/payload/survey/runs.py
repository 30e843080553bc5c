"""Every run of a project on the host: state, step, checkpoints, event files, adapter. Read-only."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Tuple

from remote.payload.checkpoints.adapter import adapter_digest
from remote.payload.checkpoints.own_files import newest_own_files
from remote.payload.checkpoints.published import survey_checkpoints
from remote.payload.files.records import read_record
from remote.payload.jobs.records import Flags
from remote.payload.jobs.state import (
    current_job,
    ended_by_restart,
    job_seconds,
    observe_job,
    read_gauges,
    read_progress,
    seconds_of_earlier_jobs,
)
from remote.payload.jobs.turn import why_waiting
from remote.payload.jobs.watch_notes import read_watch_notes
from remote.payload.output.events import survey_events
from remote.payload.output.job_folder import real_run
from remote.payload.request.call import Call
from remote.payload.request.names import checked_name
from remote.protocol.job_requests import RunRecord
from remote.protocol.jobs import Checkpoint, JobSpec, JobState, RunSurvey
from remote.protocol.layout import ProjectLayout, RunLayout
from remote.protocol.runs import RunsRequest, RunsSurvey
from remote.protocol.values import decode, encode


def runs_survey(call: Call) -> Dict[str, Any]:
    """Answer a `RunsRequest` with a `RunsSurvey`."""
    layout = ProjectLayout(checked_name(decode(RunsRequest, call.args).project))
    answer: Dict[str, Any] = encode(RunsSurvey(time.time(), survey_runs(call.workdir, layout.key)))
    return answer


def survey_runs(workdir: str, key: str, *, digests: bool = True) -> Tuple[RunSurvey, ...]:
    """Survey every run, oldest first."""
    folder = os.path.join(workdir, ProjectLayout(key).runs)
    runs: List[RunSurvey] = []
    for name in _names(folder):
        run = RunLayout(real_run(os.path.join(folder, name)))
        record = read_record(run.record, RunRecord)
        if record is not None:
            runs.append(survey_run(run, record, digests=digests))
    return tuple(sorted(runs, key=lambda run: (run.created_unix, run.run)))


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def survey_run(run: RunLayout, record: RunRecord, *, digests: bool) -> RunSurvey:
    number = current_job(run)
    observed = observe_job(run, number)
    now = observed.answer
    running = now.state is JobState.RUNNING
    flags = read_record(run.job(number).flags, Flags) or Flags()
    spec = read_record(run.job(number).spec, JobSpec)
    progress = read_progress(run, number, now.state)
    checkpoints = tuple(survey_checkpoints(run.root, digests=digests))
    return RunSurvey(
        run=record.run,
        config=record.config,
        fingerprint=record.fingerprint,
        job=number,
        state=now.state,
        started=now.started,
        result=now.result,
        progress=progress,
        checkpoints=checkpoints,
        events=survey_events(run.root),
        adapter_sha256=adapter_digest(run),
        orphans=tuple(process.pid for process in observed.orphans),
        stalled=running and flags.stalled,
        created_unix=record.created_unix,
        warnings=flags.warnings,
        watched=read_watch_notes(run, now.started),
        gauges=read_gauges(run.job(number)),
        elapsed_s=job_seconds(now, progress),
        waits=why_waiting(run.job(number), observed) if running else "",
        slurm_end=observed.ended,
        earlier_s=seconds_of_earlier_jobs(run, number),
        newest_fingerprint=spec.fingerprint if spec is not None else "",
        restarted=ended_by_restart(run.job(number), now),
        own_files=_own_files(run, now.state, checkpoints),
    )


def _own_files(run: RunLayout, state: JobState, checkpoints: Tuple[Checkpoint, ...]) -> Tuple[str, ...]:
    """Return the files from which a script may resume by itself. Other runs are not searched, which takes time."""
    ended_early = state in (JobState.STOPPED, JobState.FAILED, JobState.LOST)
    if not ended_early or any(not checkpoint.problem for checkpoint in checkpoints):
        return ()
    return newest_own_files(run.root, checkpoints)
