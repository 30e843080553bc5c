"""One job's keeper: starts it once, outlives the laptop, sees every process of it end, says how it ended."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import List, Tuple

from remote.payload.files.data_links import place_data
from remote.payload.files.lock import Held, take_lock
from remote.payload.files.records import read_record, write_record
from remote.payload.jobs.keeper import Keeper, Signals
from remote.payload.jobs.oom import count_oom_kills
from remote.payload.jobs.witness import fork_witnessed
from remote.payload.processes.identity import (
    Process,
    boot_id,
    descendants,
    is_alive,
    marked,
    read_process,
)
from remote.payload.processes.launch import job_argv, job_environment, start_gated, take_launch
from remote.payload.processes.subreaper import become_subreaper
from remote.payload.proof.injection import runs_built_in_trainer, watch_environment, write_hooks
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobResult, JobSpec, Started
from remote.protocol.layout import JobLayout, RunLayout

LOCK_WAIT_S = 2.0


def run_of(job: JobLayout) -> RunLayout:
    """The run that a job's folder belongs to."""
    return RunLayout(os.path.dirname(os.path.dirname(job.root)))


def main(mode: str, job_root: str, launch: str = "", notify: str = "-1", backend: str = "setsid") -> int:
    """Keeps the job in `job_root` to its end. `mode`: detach (double fork), stay (systemd, Slurm), adopt (orphans).

    A second keeper of the same run finds the lock held, or the job on record, and goes without a trace.
    """
    job = JobLayout(job_root)
    run = run_of(job)
    notify_fd = int(notify)
    if mode != "stay":
        _detach()
    if notify_fd >= 0:
        os.set_inheritable(notify_fd, False)
    try:
        lock = take_lock(run.lock, f"{os.path.basename(job.root)} {os.getpid()}", wait_s=LOCK_WAIT_S)
    except Held:
        return int(ExitCode.BUSY)
    with lock:
        if mode == "adopt" and not os.path.exists(job.result):
            result = _adopt(run, job, notify_fd)
        elif mode != "adopt" and read_record(job.supervisor, Started) is None and not os.path.exists(job.result):
            result = _start(run, job, launch, notify_fd, "setsid" if mode == "detach" else backend)
        else:
            return int(ExitCode.BUSY)
    return int(ExitCode.PREEMPTED) if result.preempted else result.exit


def _detach() -> None:
    # The first process led the new session; its child does not, so no terminal can ever become ours.
    if os.fork() > 0:
        os._exit(0)


def _start(run: RunLayout, job: JobLayout, launch: str, notify_fd: int, backend: str) -> JobResult:
    spec = read_record(job.spec, JobSpec)
    if spec is None:
        raise SystemExit(f"no whole job spec in {job.spec}")
    become_subreaper()
    given = take_launch(launch)
    signals = Signals()
    kills_before = count_oom_kills()
    for folder in (run.checkpoints, run.tensorboard):
        os.makedirs(folder, exist_ok=True)
    # What an earlier job of the run came to is no news of this one, and no evidence of how far it came.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(run.progress)
    environment = job_environment(spec, run, given)
    hooks = write_hooks(os.path.join(job.root, "hooks"))
    environment.update(watch_environment(run.root, hooks, environment, progress=not runs_built_in_trainer(spec.argv)))
    argv = job_argv(spec, run, job, os.path.abspath(sys.argv[0]))
    place_data(spec.data, run.code)
    gated = start_gated(argv, spec.cwd or run.code, environment, job.output, lambda: fork_witnessed(job))
    child = read_process(gated.pid) or Process(gated.pid, os.getpid(), 0)
    _record(job, child, backend, time.time())
    gated.open_gate()
    _close(notify_fd)
    keeper = Keeper(run, job, spec, child, lambda: _without(child.pid, descendants(os.getpid())), signals)
    return keeper.keep(kills_before)


def _adopt(run: RunLayout, job: JobLayout, notify_fd: int) -> JobResult:
    spec = read_record(job.spec, JobSpec)
    before = read_record(job.supervisor, Started)
    if spec is None or before is None:
        raise SystemExit(f"nothing to adopt in {job.root}")
    signals = Signals()
    child = Process(before.child_pid, 0, before.child_start_ticks)
    _record(job, child, "adopted", before.started_unix)
    # Whoever had the job taken up waits for this: where it has ended already, for its result.
    if is_alive(child.pid, child.ticks, boot_id()) or orphans_of(run, job):
        _close(notify_fd)
    keeper = Keeper(run, job, spec, child, lambda: orphans_of(run, job), signals, adopted=True)
    return keeper.keep(count_oom_kills())


def job_marks(run: RunLayout, job: JobLayout) -> Tuple[str, str]:
    """What every process of a job has in its environment, and no other process."""
    return f"HALFSTEP_RUN_DIR={run.root}", f"HALFSTEP_JOB={os.path.basename(job.root)}"


def orphans_of(run: RunLayout, job: JobLayout) -> List[Process]:
    """The living processes of a job, found without its supervisor: what is under its witness or has its marks."""
    started = read_record(job.supervisor, Started)
    found = {process.pid: process for process in marked(*job_marks(run, job))}
    if started is not None and is_alive(started.child_pid, started.child_start_ticks, started.boot_id):
        found.update({process.pid: process for process in descendants(started.child_pid)})
    return list(found.values())


def _without(witness: int, processes: List[Process]) -> List[Process]:
    """The witness ends by itself, after the process whose exit status it keeps."""
    return [process for process in processes if process.pid != witness]


def _record(job: JobLayout, child: Process, backend: str, started_unix: float) -> None:
    me = read_process(os.getpid())
    ticks = me.ticks if me is not None else 0
    started = Started(os.getpid(), ticks, boot_id(), child.pid, child.ticks, backend, started_unix)
    write_record(job.supervisor, started)


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
