"""One job's keeper: starts it once, outlives the laptop, sees every process of it end, says how it ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from dataclasses import dataclass
from types import FrameType
from typing import Callable, List, Optional, Tuple

from remote.payload.checkpoints import newest_verified
from remote.payload.ending import Ending
from remote.payload.events import seal_events
from remote.payload.launch import job_argv, job_environment, start_gated, take_launch
from remote.payload.lock import Held, take_lock
from remote.payload.oom import count_oom_kills
from remote.payload.processes import (
    Process,
    boot_id,
    descendants,
    is_alive,
    marked,
    read_process,
)
from remote.payload.proof.injection import runs_built_in_trainer, watch_environment, write_hooks
from remote.payload.records import read_record, write_record
from remote.payload.subreaper import become_subreaper
from remote.payload.supervisor_watch import Limits, Watch
from remote.payload.verdict import Evidence, judge_end
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobResult, JobSpec, Progress, Started
from remote.protocol.layout import JobLayout, RunLayout

LEFTOVER_GRACE_S = 10.0
LOCK_WAIT_S = 2.0
TICK_S = 1.0
RESERVE_BYTES = 64 * 1024
ENDING_TICK_S = 0.05


@dataclass(frozen=True)
class StopWish:
    """What job.stop left for the supervisor before it signalled: this end was asked for, with so much time to save."""

    grace_s: float
    at_unix: float = 0.0


def stop_path(job: JobLayout) -> str:
    return f"{job.root}/stop.json"


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
        if mode == "adopt":
            result = _adopt(run, job, notify_fd)
        elif read_record(job.supervisor, Started) is None and not os.path.exists(job.result):
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
    environment = job_environment(spec, run, given)
    hooks = write_hooks(os.path.join(job.root, "hooks"))
    environment.update(watch_environment(run.root, hooks, environment, progress=not runs_built_in_trainer(spec.argv)))
    argv = job_argv(spec, run, job, os.path.abspath(sys.argv[0]))
    gated = start_gated(argv, spec.cwd or run.code, environment, job.output)
    child = read_process(gated.pid) or Process(gated.pid, os.getpid(), 0)
    _record(job, child, backend)
    gated.open_gate()
    _close(notify_fd)
    keeper = Keeper(run, job, spec, child, lambda: descendants(os.getpid()), signals)
    return keeper.keep(kills_before)


def _adopt(run: RunLayout, job: JobLayout, notify_fd: int) -> JobResult:
    spec = read_record(job.spec, JobSpec)
    before = read_record(job.supervisor, Started)
    if spec is None or before is None:
        raise SystemExit(f"nothing to adopt in {job.root}")
    signals = Signals()
    child = Process(before.child_pid, 0, before.child_start_ticks)
    _record(job, child, "adopted")
    _close(notify_fd)
    keeper = Keeper(run, job, spec, child, lambda: orphans_of(run, job), signals, adopted=True)
    return keeper.keep(count_oom_kills())


def job_marks(run: RunLayout, job: JobLayout) -> Tuple[str, str]:
    """What every process of a job has in its environment, and no other process."""
    return f"HALFSTEP_RUN_DIR={run.root}", f"HALFSTEP_JOB={os.path.basename(job.root)}"


def orphans_of(run: RunLayout, job: JobLayout) -> List[Process]:
    """The living processes of a job, found without its supervisor: its child, what is under it, what bears its mark."""
    started = read_record(job.supervisor, Started)
    found = {process.pid: process for process in marked(*job_marks(run, job))}
    if started is not None and is_alive(started.child_pid, started.child_start_ticks, started.boot_id):
        child = read_process(started.child_pid)
        if child is not None and not child.dead:
            found[child.pid] = child
            found.update({process.pid: process for process in descendants(child.pid)})
    return list(found.values())


def _record(job: JobLayout, child: Process, backend: str) -> None:
    me = read_process(os.getpid())
    ticks = me.ticks if me is not None else 0
    started = Started(os.getpid(), ticks, boot_id(), child.pid, child.ticks, backend, time.time())
    write_record(job.supervisor, started)


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)


class Signals:
    """SIGTERM and SIGINT are noted, SIGHUP is not heard, and a wait ends when one of them or a child's end comes."""

    def __init__(self) -> None:
        self.told = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: Optional[FrameType]) -> None:
        self.told = True

    def wait(self, seconds: float) -> None:
        """Something came, or the time is up."""
        readable, _, _ = select.select([self._reader], [], [], seconds)
        if readable:
            with contextlib.suppress(BlockingIOError):
                os.read(self._reader, 4096)


class Reserve:
    """A little disk held back, so that a job that filled it can still say how it ended."""

    def __init__(self, path: str) -> None:
        self._path = path
        with contextlib.suppress(OSError), open(path, "wb") as file:
            file.write(os.urandom(RESERVE_BYTES))

    def release(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path)


class Keeper:
    """The loop around one running job."""

    def __init__(
        self,
        run: RunLayout,
        job: JobLayout,
        spec: JobSpec,
        child: Process,
        members: Callable[[], List[Process]],
        signals: Signals,
        *,
        adopted: bool = False,
    ) -> None:
        self._run = run
        self._job = job
        self._spec = spec
        self._child = child
        self._members = members
        self._signals = signals
        self._adopted = adopted
        self._status: Optional[int] = None
        self._watch = Watch(run, job, spec, Limits())
        self._reserve = Reserve(f"{job.root}/reserve")

    def keep(self, kills_before: Optional[int]) -> JobResult:
        """The job has ended, no process of it is left, and its result is written."""
        left = self._stay()
        kills = (count_oom_kills() or 0) - (kills_before or 0)
        self._watch.finish(time.monotonic())
        result = judge_end(self._evidence(kills, left), time.time())
        with contextlib.suppress(OSError):
            seal_events(self._run.root)
        self._reserve.release()
        write_record(self._job.result, result)
        return result

    def _stay(self) -> Tuple[int, ...]:
        ending: Optional[Ending] = None
        while True:
            gone = self._gone()
            now = time.monotonic()
            wish = read_record(stop_path(self._job), StopWish)
            if ending is None and self._signals.told:
                ending = Ending(self._members, now, wish.grace_s if wish is not None else self._spec.grace_s)
            if ending is None and gone:
                ending = Ending(self._members, now, LEFTOVER_GRACE_S)
            if ending is not None:
                if wish is not None and wish.grace_s <= 0:
                    ending.hasten(now)
                if ending.advance(now) and (self._gone() or ending.left):
                    return ending.left
            with contextlib.suppress(OSError):
                self._watch.look(now)
            self._signals.wait(ENDING_TICK_S if ending is not None else TICK_S)

    def _gone(self) -> bool:
        """The first process has ended; everything that can be reaped was."""
        if self._adopted:
            return not is_alive(self._child.pid, self._child.ticks, boot_id())
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == self._child.pid:
                self._status = status
            if pid == 0:
                return self._status is not None

    def _evidence(self, kills: int, left: Tuple[int, ...]) -> Evidence:
        checkpoint = newest_verified(self._run.root, trust_stat=True)
        return Evidence(
            status=self._status,
            asked=os.path.exists(stop_path(self._job)),
            told=self._signals.told,
            oom_kills=kills,
            checkpoint=checkpoint.name if checkpoint is not None else "",
            progress=read_record(self._run.progress, Progress),
            steps=self._spec.steps,
            adapter=os.path.isdir(self._run.adapter),
            left=len(left),
        )
