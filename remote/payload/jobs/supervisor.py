"""The supervisor: the process that owns a job. It starts or adopts the job and runs the job loop."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import replace
from typing import Dict, List, NamedTuple

from remote.payload.checkpoints.kept import keep
from remote.payload.files.data_links import place_data
from remote.payload.files.lock import Held, take_lock
from remote.payload.files.records import read_record, write_record
from remote.payload.jobs.continuation import continue_run
from remote.payload.jobs.exit_recorder import fork_recorded
from remote.payload.jobs.job_loop import JobLoop, Signals
from remote.payload.jobs.notification import send_notification
from remote.payload.jobs.oom import count_oom_kills
from remote.payload.jobs.orphans import Adopted, Members, orphans_of
from remote.payload.jobs.slurm import own_jobs
from remote.payload.jobs.turn import await_turn, record_waiting
from remote.payload.probes.machine import machine_name
from remote.payload.processes.command_jobs import CommandJobs
from remote.payload.processes.identity import Process, boot_id, is_alive, pid_namespace, read_process
from remote.payload.processes.launch import (
    Launch,
    job_argv,
    job_environment,
    remove_rendezvous,
    renew_rendezvous,
    start_gated,
    take_launch,
)
from remote.payload.processes.subreaper import become_subreaper
from remote.payload.proof.injection import runs_built_in_trainer, watch_environment, write_hooks
from remote.payload.proof.unhooked import KEY, find_unsigned
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobResult, JobSpec, Started
from remote.protocol.layout import JobLayout, RunLayout

LOCK_WAIT_S = 2.0
HOOKS = "hooks"
"""The folder of a job with the hooks of its processes."""


def main(mode: str, job_root: str, launch: str = "", notify: str = "-1", backend: str = "setsid") -> int:
    """Supervise the job in `job_root` until it ends.

    `mode` is detach (double fork), stay (systemd, Slurm) or adopt (a job that lost its supervisor). `notify` is a
    descriptor that is closed once the job is on record. Exits with BUSY and changes nothing if the run already has a
    supervisor.
    """
    job = JobLayout(job_root)
    run = RunLayout(os.path.dirname(os.path.dirname(job.root)))
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
        if os.path.exists(job.result):
            return int(ExitCode.BUSY)
        if mode == "adopt":
            ended = _adopt(run, job, notify_fd)
        elif read_record(job.supervisor, Started) is None:
            ended = _start(run, job, launch, notify_fd, "setsid" if mode == "detach" else backend)
        else:
            return int(ExitCode.BUSY)
        remove_rendezvous(job)
    if ended.result.next_job:
        return int(ExitCode.PREEMPTED)
    # The lock is released first, because a notification may take long.
    send_notification(run, ended.spec, ended.result, ended.environment)
    return int(ExitCode.PREEMPTED) if ended.result.preempted else ended.result.exit


class Ended(NamedTuple):
    """A job that has ended. `environment` is the job's environment, with secrets if this supervisor started the job."""

    spec: JobSpec
    environment: Dict[str, str]
    result: JobResult


def _detach() -> None:
    # This process leads its session. Its child is no session leader, so the child never gets a controlling terminal.
    if os.fork() > 0:
        os._exit(0)


def _start(run: RunLayout, job: JobLayout, launch: str, notify_fd: int, backend: str) -> Ended:
    spec = read_record(job.spec, JobSpec)
    if spec is None:
        raise SystemExit(f"{job.spec} is missing or not valid")
    become_subreaper()
    given = take_launch(launch)
    signals = Signals()
    if spec.after:
        record_waiting(job)
        _close(notify_fd)
        notify_fd = -1
        if not await_turn(job, spec, signals):
            return Ended(spec, job_environment(spec, run, given), _stopped_while_waiting(job))
    kills_before = count_oom_kills()
    for folder in (run.checkpoints, run.tensorboard):
        os.makedirs(folder, exist_ok=True)
    # The progress of an earlier job of the run must not count as progress of this job.
    with contextlib.suppress(FileNotFoundError):
        if spec.number > 1:
            os.replace(run.progress, run.job(spec.number - 1).progress)
        else:
            os.unlink(run.progress)
    environment = job_environment(spec, run, given)
    for_notification = dict(environment)
    hooks = write_hooks(os.path.join(job.root, HOOKS))
    built_in = runs_built_in_trainer(spec.argv)
    environment.update(watch_environment(run.root, hooks, environment, progress=not built_in))
    if spec.resume_from and not built_in:
        with contextlib.suppress(OSError):
            keep(run.root, spec.resume_from)
    renew_rendezvous(job)
    argv = job_argv(spec, run, job, os.path.abspath(sys.argv[0]))
    command_jobs = CommandJobs(run.root, environment, own_jobs(run))
    has_slurm = command_jobs.can_list()
    place_data(spec.data, run.code)
    gated = start_gated(argv, spec.cwd or run.code, environment, job.output, lambda: fork_recorded(job))
    child = read_process(gated.pid) or Process(gated.pid, os.getpid(), 0)
    _record(job, child, backend, Started(0, 0, "", started_unix=time.time(), has_slurm=has_slurm))
    gated.open_gate()
    _close(notify_fd)

    def finish(result: JobResult) -> JobResult:
        limited = backend == "slurm" and signals.at_time_limit and not loop.slurm_left
        return continue_run(os.path.abspath(sys.argv[0]), run, job, spec, given.secrets, result) if limited else result

    running, refused = Members(run, job), False

    def members() -> List[Process]:
        # The SIGTERM at the end of a job under Slurm is sent by Slurm. A refused job is killed at once.
        return _without(child.pid, running.below() if backend == "slurm" and not refused else running.all())

    def refusal() -> str:
        nonlocal refused
        why = _why_unsigned(running.all(), hooks) if environment[KEY] else ""
        refused = refused or bool(why)
        return why

    loop = JobLoop(run, job, spec, child, members, signals, finish=finish, refusal=refusal, command_jobs=command_jobs)
    return Ended(spec, for_notification, loop.run(kills_before))


def _why_unsigned(processes: List[Process], hooks: str) -> str:
    unsigned = find_unsigned(processes, hooks)
    return f"{unsigned.message}; {unsigned.hint}" if unsigned is not None else ""


def _stopped_while_waiting(job: JobLayout) -> JobResult:
    """Write the result of a job that was stopped before its turn.

    After another signal, such as a shutdown of the machine, the job has no result, so it can be started again.
    """
    result = JobResult(130, stopped=True, reason="stopped before it began", ended_unix=time.time())
    if not os.path.exists(job.stop):
        raise SystemExit(int(ExitCode.PREEMPTED))
    write_record(job.result, result)
    return result


def _adopt(run: RunLayout, job: JobLayout, notify_fd: int) -> Ended:
    spec = read_record(job.spec, JobSpec)
    before = read_record(job.supervisor, Started)
    if spec is None or before is None:
        raise SystemExit(f"{job.root} has no job to adopt")
    signals = Signals()
    child = Process(before.child_pid, 0, before.child_start_ticks)
    _record(job, child, "adopted", before)
    # Only the supervisor that started the job had the secrets of the job.
    environment = job_environment(spec, run, Launch())
    command_jobs = CommandJobs(run.root, environment, own_jobs(run))
    # The process that requested the adoption waits until this descriptor is closed. For a job that has already ended,
    # the descriptor stays open until the result is written.
    if is_alive(child.pid, child.ticks, boot_id()) or orphans_of(run, job):
        _close(notify_fd)
    hooks = os.path.join(job.root, HOOKS)

    members = Adopted(run, job).read

    def refusal() -> str:
        return _why_unsigned(members(), hooks) if environment[KEY] else ""

    loop = JobLoop(run, job, spec, child, members, signals, adopted=True, refusal=refusal, command_jobs=command_jobs)
    return Ended(spec, environment, loop.run(count_oom_kills()))


def _without(exit_recorder: int, processes: List[Process]) -> List[Process]:
    """Return the processes without the exit recorder, which ends by itself after the job's first process."""
    return [process for process in processes if process.pid != exit_recorder]


def _record(job: JobLayout, child: Process, backend: str, earlier: Started) -> None:
    """Record this supervisor. What is not about its processes is that of the `earlier` one."""
    me = read_process(os.getpid())
    started = replace(
        earlier,
        pid=os.getpid(),
        start_ticks=me.ticks if me is not None else 0,
        boot_id=boot_id(),
        child_pid=child.pid,
        child_start_ticks=child.ticks,
        backend=backend,
        namespace=pid_namespace(),
        machine=machine_name(),
    )
    write_record(job.supervisor, started)


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
