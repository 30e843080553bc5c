"""Wait for a turn: a queued job starts after the jobs that use the same cards and were started before it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, FrozenSet, Iterator, Optional, Tuple

from remote.payload.files.records import read_record, write_record
from remote.payload.jobs.records import Queued
from remote.payload.jobs.state import JobObservation, current_job, judge_job
from remote.payload.processes.identity import boot_id, is_alive, pid_namespace, read_process
from remote.protocol.jobs import JobSpec, JobState, Started
from remote.protocol.layout import PROJECTS, JobLayout, RunLayout

if TYPE_CHECKING:  # A survey reads turns, and does not need the code that runs a job.
    from remote.payload.jobs.job_loop import Signals

POLL_S = 0.5


def jobs_before(workdir: str, job: JobLayout, spec: JobSpec) -> Tuple[str, ...]:
    """Return the folders of all living jobs of this machine that share a card with this job, ordered by turn.

    All jobs under the workdir are considered. Machines may share the workdir over a network, but each has its own
    cards.
    """
    jobs = [
        other
        for other in _newest_jobs(os.path.join(workdir, PROJECTS))
        if other.root != job.root and _shares_card(other, spec) and _on_this_machine(other) and _is_living(other.root)
    ]
    return tuple(other.root for other in sorted(jobs, key=turn_of))


def _newest_jobs(projects: str) -> Iterator[JobLayout]:
    for project in sorted(os.listdir(projects)):
        runs = os.path.join(projects, project, "runs")
        for name in sorted(os.listdir(runs)) if os.path.isdir(runs) else ():
            run = RunLayout(os.path.join(runs, name))
            number = 0 if os.path.islink(run.root) else current_job(run)
            if number:
                yield run.job(number)


def turn_of(job: JobLayout) -> int:
    """Return the job's turn, or 0 without a spec. Waiting jobs with lower turns start first."""
    spec = read_record(job.spec, JobSpec)
    return spec.turn if spec is not None else 0


def _shares_card(other: JobLayout, spec: JobSpec) -> bool:
    other_spec = read_record(other.spec, JobSpec)
    if other_spec is None:
        return False
    first, second = cards_of(other_spec), cards_of(spec)
    return first is None or second is None or bool(first & second)


def _on_this_machine(job: JobLayout) -> bool:
    """Return True if the job's supervisor was started on this machine since its last boot."""
    record = read_record(job.supervisor, Started) or read_record(job.queued, Queued)
    return record is not None and record.boot_id == boot_id()


def cards_of(spec: JobSpec) -> Optional[FrozenSet[str]]:
    """Return the cards that the job may use. None means all cards."""
    named = spec.environment.get("CUDA_VISIBLE_DEVICES")
    return None if named is None else frozenset(named.split(","))


def _is_living(job_root: str) -> bool:
    run = RunLayout(os.path.dirname(os.path.dirname(job_root)))
    return judge_job(run, int(os.path.basename(job_root))).state is JobState.RUNNING


def await_turn(job: JobLayout, spec: JobSpec, signals: Signals) -> bool:
    """Wait until each job of `spec.after` has ended, however it ended.

    Return False if a signal or a request to stop came first.
    """
    for before in spec.after:
        while _is_ahead(before, job, spec):
            if signals.sigterm_received or os.path.exists(job.stop):
                return False
            signals.wait(POLL_S)
    return not signals.sigterm_received


def _is_ahead(before: str, job: JobLayout, spec: JobSpec) -> bool:
    """Return True if the job `before` is alive and has begun, or is alive and has an earlier turn.

    If the waiting supervisor of a job is killed, the job is queued again with a later turn. It then waits for the jobs
    that were waiting for it. A job waits only for jobs that have begun or have an earlier turn, so no two jobs wait for
    each other.
    """
    other_spec = read_record(JobLayout(before).spec, JobSpec)
    begun = other_spec is None or read_record(JobLayout(before).supervisor, Started) is not None
    earlier = other_spec is None or (other_spec.turn, before) < (spec.turn, job.root)
    return (begun or earlier) and _is_living(before)


def record_waiting(job: JobLayout) -> None:
    """Record that this process waits for the turn of the job."""
    me = read_process(os.getpid())
    ticks = me.ticks if me is not None else 0
    write_record(job.queued, Queued(os.getpid(), ticks, boot_id(), pid_namespace()))


def why_waiting(job: JobLayout, observed: JobObservation) -> str:
    """Return the reason why a living job has not begun, or "" if it has begun."""
    if observed.answer.started is not None:
        return ""
    if observed.queue:
        return f"waits in Slurm's queue: {observed.queue}"
    before = _waits_for(job)
    return f"waits for {before} to end" if before else ""


def _waits_for(job: JobLayout) -> str:
    """Return the run for which a queued job waits, or "" if it does not wait."""
    queued, spec = read_record(job.queued, Queued), read_record(job.spec, JobSpec)
    if queued is None or spec is None or not is_alive(queued.pid, queued.start_ticks, queued.boot_id):
        return ""
    ahead = (before for before in spec.after if _is_ahead(before, job, spec))
    return next((os.path.basename(os.path.dirname(os.path.dirname(before))) for before in ahead), "")
