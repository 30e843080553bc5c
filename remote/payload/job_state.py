"""What state a run's jobs are in, from what lies in its folder and who is alive; nothing is changed."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any, List

from remote.payload import slurm, supervisor
from remote.payload.call import Call
from remote.payload.lock import NoLocks, holder
from remote.payload.processes import Process, is_alive
from remote.payload.records import read_record
from remote.payload.refusal import Refusal
from remote.payload.supervisor_watch import Flags, flags_path
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobNews, JobResult, JobState, Progress, StartAnswer, Started, judge_state
from remote.protocol.layout import JobLayout, ProjectLayout, RunLayout

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")


def checked_name(name: Any) -> str:
    """The name of a project or run, which can lead to no other folder. Raises Refusal."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refusal("usage", f"{name!r} is not the name of a project or run", exit_code=ExitCode.USAGE)
    return name


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
    with contextlib.suppress(NoLocks):
        return (holder(run.lock) or "").partition(" ")[0]
    return ""


def supervised(run: RunLayout, job: JobLayout) -> bool:
    """A supervisor of that very job lives, or waits in Slurm's queue to be started."""
    started = read_record(job.supervisor, Started)
    if started is not None:
        held = lock_holder(run) == os.path.basename(job.root)
        if held or is_alive(started.pid, started.start_ticks, started.boot_id):
            return True
    submitted = slurm.read_submitted(job)
    if submitted is None or os.path.exists(job.result):
        return False
    return slurm.is_queued_or_running(submitted.slurm_job)


def orphans(run: RunLayout, job: JobLayout) -> List[Process]:
    """Processes that a job left without a supervisor; () for one that ended, or whose supervisor lives."""
    return [] if supervised(run, job) else _left_behind(run, job)


def _left_behind(run: RunLayout, job: JobLayout) -> List[Process]:
    if read_record(job.supervisor, Started) is None or os.path.exists(job.result):
        return []
    return supervisor.orphans_of(run, job)


def judge_job(run: RunLayout, number: int) -> StartAnswer:
    """The job of that number as it is now."""
    job = run.job(number)
    alive = supervised(run, job) or bool(_left_behind(run, job))
    # The result is read after the look at the living: whoever ended in between has written it.
    result = read_record(job.result, JobResult)
    started = read_record(job.supervisor, Started)
    state = judge_state(started=started, result=result, alive=alive)
    return StartAnswer(os.path.basename(run.root), number, state, False, started, result)


def read_news(run: RunLayout, number: int) -> JobNews:
    """What a follower of that job would be told now."""
    now = judge_job(run, number)
    flags = read_record(flags_path(run.job(number)), Flags)
    stalled = now.state is JobState.RUNNING and flags is not None and flags.stalled
    return JobNews(number, now.state, read_record(run.progress, Progress), now.result, stalled)
