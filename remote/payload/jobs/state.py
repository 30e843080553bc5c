"""What state a run's jobs are in, from what lies in its folder and who is alive; nothing is changed."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Tuple

from remote.payload.files.lock import holder
from remote.payload.files.records import read_record
from remote.payload.jobs import slurm, supervisor
from remote.payload.jobs.supervisor_watch import Flags, flags_path
from remote.payload.jobs.watched import read_watched
from remote.payload.processes.identity import Process, is_alive
from remote.payload.request.call import Call
from remote.payload.request.names import checked_name
from remote.protocol.jobs import JobNews, JobResult, JobState, Progress, StartAnswer, Started, judge_state
from remote.protocol.layout import JobLayout, ProjectLayout, RunLayout


def run_layout(call: Call, project: str, run: str) -> RunLayout:
    """The run's folder, absolute."""
    return RunLayout(call.path(ProjectLayout(checked_name(project)).run(checked_name(run)).root))


def newest_job(run: RunLayout) -> int:
    """The highest number of a job; 0 where there is none."""
    with contextlib.suppress(FileNotFoundError):
        return max((int(name) for name in os.listdir(f"{run.root}/jobs") if name.isdigit()), default=0)
    return 0


def lock_holder(run: RunLayout) -> str:
    """The number of the job whose supervisor holds the run's kernel lock now; "" where nobody does."""
    return (holder(run.lock) or "").partition(" ")[0]


@dataclass(frozen=True)
class JobObservation:
    """One look at a job: its state, its processes where it has no supervisor, and its state in Slurm's queue."""

    answer: StartAnswer
    orphans: Tuple[Process, ...] = ()
    queue: str = ""


def supervised(run: RunLayout, job: JobLayout) -> bool:
    """A supervisor of that very job lives on this machine."""
    started = read_record(job.supervisor, Started)
    if started is None:
        return False
    held = lock_holder(run) == os.path.basename(job.root)
    return held or is_alive(started.pid, started.start_ticks, started.boot_id)


def observe_job(run: RunLayout, number: int) -> JobObservation:
    """The job of that number as it is now."""
    job = run.job(number)
    over = os.path.exists(job.result)
    alive = supervised(run, job)
    submitted = None if over or alive else slurm.read_submitted(job)
    queue = slurm.queue_state(submitted.slurm_job) if submitted is not None else ""
    left: Tuple[Process, ...] = ()
    before = read_record(job.supervisor, Started)
    witnessed = before is not None and is_alive(before.child_pid, before.child_start_ticks, before.boot_id)
    if not (over or alive or slurm.is_living(queue)) and before is not None:
        left = tuple(supervisor.orphans_of(run, job))
    # The result is read after the look at the living: whoever ended in between has written it.
    result = read_record(job.result, JobResult)
    started = read_record(job.supervisor, Started)
    alive = alive or slurm.is_living(queue) or bool(left) or witnessed
    state = judge_state(started=started, result=result, alive=alive)
    return JobObservation(StartAnswer(os.path.basename(run.root), number, state, False, started, result), left, queue)


def judge_job(run: RunLayout, number: int) -> StartAnswer:
    """What state that job is in now."""
    return observe_job(run, number).answer


def read_news(run: RunLayout, number: int) -> JobNews:
    """What a follower of that job would be told now."""
    now = judge_job(run, number)
    flags = read_record(flags_path(run.job(number)), Flags)
    stalled = now.state is JobState.RUNNING and flags is not None and flags.stalled
    watched = read_watched(run, now.started)
    return JobNews(number, now.state, read_record(run.progress, Progress), now.result, stalled, watched)
