"""Judge the state of a run's jobs from its folder and the living processes. Read-only."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from typing import NamedTuple, Optional, Tuple

from remote.payload.files.lock import holder
from remote.payload.files.records import read_record
from remote.payload.jobs import slurm
from remote.payload.jobs.orphans import orphans_of
from remote.payload.jobs.records import Queued, Submitted
from remote.payload.output.job_folder import newest_job, real_run
from remote.payload.probes.machine import machine_name
from remote.payload.processes.identity import Process, began_unix, boot_id, boot_unix, is_alive, pid_namespace
from remote.payload.processes.slurm_queue import is_living
from remote.payload.request.call import Call
from remote.payload.request.names import checked_name
from remote.protocol.dataclass import dataclass
from remote.protocol.gauges import Gauges
from remote.protocol.jobs import (
    JobResult,
    JobSpec,
    JobState,
    Progress,
    StartAnswer,
    Started,
    judge_state,
    seconds_elapsed,
)
from remote.protocol.layout import JobLayout, ProjectLayout, RunLayout

SILENT_AFTER_S = 120.0
"""A job on another machine or in another container counts as ended after this time without output and steps."""

NODE_LOST = ("", "NODE_FAIL", "BOOT_FAIL")
"""The last states in Slurm of a job whose processes may still run."""


def run_layout(call: Call, project: str, run: str) -> RunLayout:
    """Return the absolute paths of the run's folder and of the files in it."""
    return RunLayout(real_run(call.path(ProjectLayout(checked_name(project)).run(checked_name(run)).root)))


@dataclass(frozen=True)
class JobObservation:
    """A job's state, its orphans (processes without a supervisor), and its state in Slurm's queue.

    A job counts as running while its supervisor waits for other jobs to end. `ended` is the last state in Slurm's queue
    of a job that has no result.
    """

    answer: StartAnswer
    orphans: Tuple[Process, ...] = ()
    queue: str = ""
    ended: str = ""


def supervised(run: RunLayout, job: JobLayout) -> bool:
    """Return True if a supervisor of exactly this job is alive, waiting or not. On another machine, it holds a lock."""
    known = read_record(job.supervisor, Started) or read_record(job.queued, Queued)
    if known is None:
        return False
    if is_alive(known.pid, known.start_ticks, known.boot_id):
        return True
    number, _, pid = (holder(run.lock) or "").partition(" ")
    # The kernel releases the lock of a killed supervisor only when its last thread has ended.
    ends = pid == str(known.pid) and known.boot_id == boot_id() and known.namespace in ("", pid_namespace())
    return number == os.path.basename(job.root) and not ends


def observe_job(run: RunLayout, number: int) -> JobObservation:
    """Observe the job with the given number."""
    job = run.job(number)
    over = os.path.exists(job.result)
    alive = supervised(run, job)
    submitted = None if over or alive else slurm.read_submitted(job)
    queue = slurm.queue_state(submitted.slurm_job) if submitted is not None else ""
    alive = alive or is_living(queue)
    left = _Unsupervised() if over or alive else _unsupervised(run, number)
    # The result is read after the processes, because a job that ended in between has already written it.
    result = read_record(job.result, JobResult)
    started = read_record(job.supervisor, Started)
    alive = alive or any(left) or (result is None and _writes_elsewhere(run, job, submitted))
    state = judge_state(started=started, result=result, alive=alive)
    left_queue = submitted is not None and state in (JobState.LOST, JobState.ABSENT)
    ended = slurm.end_state(submitted.slurm_job) if submitted is not None and left_queue else ""
    answer = StartAnswer(os.path.basename(run.root), number, state, False, started, result)
    return JobObservation(answer, left.orphans, queue, ended)


class _Unsupervised(NamedTuple):
    """What is alive of a job without a supervisor. `recorder` is True if its exit recorder is alive."""

    orphans: Tuple[Process, ...] = ()
    recorder: bool = False


def _unsupervised(run: RunLayout, number: int) -> _Unsupervised:
    job = run.job(number)
    before = read_record(job.supervisor, Started)
    if before is None:
        return _Unsupervised()
    recorder = is_alive(before.child_pid, before.child_start_ticks, before.boot_id)
    return _Unsupervised(tuple(orphans_of(run, job)), recorder)


def _writes_elsewhere(run: RunLayout, job: JobLayout, submitted: Optional[Submitted]) -> bool:
    """Return True if processes that cannot be seen from here have written to the run in the last SILENT_AFTER_S.

    The supervisor changes the time of supervisor.json every BEAT_S seconds. Slurm ends every process of a job, unless
    it has lost the job's node.
    """
    started = read_record(job.supervisor, Started)
    if started is None or not is_elsewhere(started):
        return False
    if submitted is not None and slurm.end_state(submitted.slurm_job) not in NODE_LOST:
        return False
    newest = run.job(newest_job(run)).root == job.root
    earliest = time.time() - SILENT_AFTER_S
    if started.machine in ("", machine_name()):
        # Processes that this machine or container had before its restart have written nothing since.
        earliest = max(earliest, began_unix())
    for path in (job.supervisor, job.output, job.gauges, *([run.progress] if newest else [])):
        with contextlib.suppress(OSError):
            if earliest < os.stat(path).st_mtime < time.time() + SILENT_AFTER_S:
                return True
    return False


def is_elsewhere(started: Started) -> bool:
    """Return True if the job began on another machine or in another container, or before a restart of this one.

    Its processes cannot be seen from here. Two containers can have the same name.
    """
    return started.boot_id != boot_id() or started.namespace not in ("", pid_namespace())


def ended_by_restart(job: JobLayout, now: StartAnswer) -> bool:
    """Return True if the job is lost and its host was restarted after the job began.

    A different boot id alone is not sufficient: it may be that of another login node. Slurm jobs run on another machine
    and never count.
    """
    started = now.started
    if now.state is not JobState.LOST or started is None or slurm.read_submitted(job) is not None:
        return False
    return started.boot_id != boot_id() and 0.0 < started.started_unix < boot_unix()


def job_seconds(now: StartAnswer, progress: Optional[Progress]) -> Optional[float]:
    """Return the seconds that the job has run. A lost job ran at least until its last step."""
    lost = now.state is JobState.LOST
    end = (progress.at_unix if progress is not None else 0.0) if lost else time.time()
    return seconds_elapsed(now.started, now.result, end)


def judge_job(run: RunLayout, number: int) -> StartAnswer:
    """Return the job's state, without its orphans and queue state."""
    return observe_job(run, number).answer


def current_job(run: RunLayout) -> int:
    """Return the number of the run's newest job, or 0 if the run has no job.

    A job that is queued to continue a job that is still running does not count yet.
    """
    number = newest_job(run)
    if number > 1 and judge_job(run, number).state is JobState.ABSENT:
        before = judge_job(run, number - 1).state
        return number - 1 if before is JobState.RUNNING else number
    return number


def read_progress(run: RunLayout, number: int, state: JobState) -> Optional[Progress]:
    """Return the progress of the job with that number.

    If the job resumed and ended without an optimizer step, return the progress of the job before it.
    """
    own = read_record(run.progress, Progress)
    spec = read_record(run.job(number).spec, JobSpec)
    if own is not None or state in (JobState.RUNNING, JobState.ABSENT) or spec is None or not spec.resume_from:
        return own
    earlier = (read_record(run.job(before).progress, Progress) for before in range(number - 1, 0, -1))
    last = next(filter(None, earlier), None)
    return replace(last, began=last.step) if last is not None else None


def list_jobs(run: RunLayout, until: int) -> Tuple[StartAnswer, ...]:
    """Return the state of each job up to that number, oldest first, with the steps of all but the run's last job.

    The steps of the last job are in the run's progress.
    """
    jobs = []
    for number in range(1, until + 1):
        done = read_record(run.job(number).progress, Progress)
        answer = judge_job(run, number)
        jobs.append(replace(answer, first_step=done.began, last_step=done.step) if done is not None else answer)
    return tuple(jobs)


def seconds_of_earlier_jobs(run: RunLayout, number: int) -> float:
    """Return the time that the jobs before that number ran."""
    jobs = (run.job(before) for before in range(1, number))
    ran = (
        seconds_elapsed(read_record(job.supervisor, Started), read_record(job.result, JobResult), 0.0) for job in jobs
    )
    return sum(filter(None, ran))


def read_gauges(job: JobLayout) -> Gauges:
    """Return the recorded gauges of a job. The gauges are empty if an older payload started the job."""
    return read_record(job.gauges, Gauges) or Gauges()
