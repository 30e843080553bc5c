"""The state of a run's jobs, judged from its folder and the living processes. Read-only."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Tuple

from remote.payload.files.lock import holder
from remote.payload.files.records import read_record
from remote.payload.jobs import slurm
from remote.payload.jobs.orphans import orphans_of
from remote.payload.jobs.records import Flags
from remote.payload.jobs.watch_notes import read_watch_notes
from remote.payload.output.job_folder import real_run
from remote.payload.processes.identity import Process, is_alive
from remote.payload.request.call import Call
from remote.payload.request.names import checked_name
from remote.protocol.gauges import Gauges
from remote.protocol.jobs import (
    JobNews,
    JobResult,
    JobState,
    Progress,
    StartAnswer,
    Started,
    judge_state,
    seconds_elapsed,
)
from remote.protocol.layout import JobLayout, ProjectLayout, RunLayout


def run_layout(call: Call, project: str, run: str) -> RunLayout:
    """The run's folder, with absolute paths."""
    return RunLayout(real_run(call.path(ProjectLayout(checked_name(project)).run(checked_name(run)).root)))


def lock_holder(run: RunLayout) -> str:
    """The number of the job whose supervisor holds the run's lock; "" if none does."""
    return (holder(run.lock) or "").partition(" ")[0]


@dataclass(frozen=True)
class JobObservation:
    """A job's state, its orphans (processes without a supervisor), and its state in Slurm's queue."""

    answer: StartAnswer
    orphans: Tuple[Process, ...] = ()
    queue: str = ""


def supervised(run: RunLayout, job: JobLayout) -> bool:
    """Return True if a supervisor of exactly this job is alive on this machine."""
    started = read_record(job.supervisor, Started)
    if started is None:
        return False
    held = lock_holder(run) == os.path.basename(job.root)
    return held or is_alive(started.pid, started.start_ticks, started.boot_id)


def observe_job(run: RunLayout, number: int) -> JobObservation:
    """Observe the job of that number."""
    job = run.job(number)
    over = os.path.exists(job.result)
    alive = supervised(run, job)
    submitted = None if over or alive else slurm.read_submitted(job)
    queue = slurm.queue_state(submitted.slurm_job) if submitted is not None else ""
    orphans: Tuple[Process, ...] = ()
    before = read_record(job.supervisor, Started)
    recorder_alive = before is not None and is_alive(before.child_pid, before.child_start_ticks, before.boot_id)
    if not (over or alive or slurm.is_living(queue)) and before is not None:
        orphans = tuple(orphans_of(run, job))
    # The result is read after the processes: a job that ended in between has written it.
    result = read_record(job.result, JobResult)
    started = read_record(job.supervisor, Started)
    alive = alive or slurm.is_living(queue) or bool(orphans) or recorder_alive
    state = judge_state(started=started, result=result, alive=alive)
    return JobObservation(
        StartAnswer(os.path.basename(run.root), number, state, False, started, result), orphans, queue
    )


def judge_job(run: RunLayout, number: int) -> StartAnswer:
    """The job's state, without its orphans and queue state."""
    return observe_job(run, number).answer


def read_news(run: RunLayout, number: int) -> JobNews:
    """The `JobNews` that a follower of that job would receive now."""
    now = judge_job(run, number)
    flags = read_record(run.job(number).flags, Flags)
    stalled = now.state is JobState.RUNNING and flags is not None and flags.stalled
    watched = read_watch_notes(run, now.started)
    return JobNews(
        number,
        now.state,
        read_record(run.progress, Progress),
        now.result,
        stalled,
        watched,
        read_gauges(run.job(number)),
        seconds_elapsed(now.started, now.result, time.time()),
    )


def read_gauges(job: JobLayout) -> Gauges:
    """The recorded gauges of a job; empty for a job of an older payload."""
    return read_record(job.gauges, Gauges) or Gauges()
