"""The supervisor's loop for one running job. It monitors the job, ends its processes, and writes the result last."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from dataclasses import replace
from types import FrameType
from typing import Callable, List, Optional, Tuple

from remote.payload.checkpoints.adapter import record_adapter
from remote.payload.checkpoints.kept import remove_kept_links
from remote.payload.files.records import read_record, write_record
from remote.payload.jobs.evidence import gather_evidence
from remote.payload.jobs.exit_recorder import read_exit
from remote.payload.jobs.monitor import JobMonitor, Limits
from remote.payload.jobs.oom import count_oom_kills
from remote.payload.jobs.records import StopRequest
from remote.payload.jobs.verdict import judge_end
from remote.payload.output.events import write_event_index
from remote.payload.processes.command_jobs import SUBMITS, CommandJobs
from remote.payload.processes.ending import Ending
from remote.payload.processes.identity import Process, boot_id, descendants, is_alive, read_process
from remote.payload.processes.reaping import reap_child
from remote.payload.proof.unhooked import UNSIGNED
from remote.protocol.jobs import JobResult, JobSpec, Started
from remote.protocol.layout import JobLayout, RunLayout

LEFTOVER_GRACE_S = 10.0
TICK_S = 1.0
ENDING_TICK_S = 0.05
BEAT_S = 10.0
RESERVE_BYTES = 64 * 1024


class Signals:
    """Records SIGTERM and SIGINT, and ignores SIGHUP. `wait` returns early on any signal, including SIGCHLD.

    SIGUSR1 counts as a SIGTERM and sets `at_time_limit`. Slurm sends it some time before it kills the job.
    """

    def __init__(self) -> None:
        self.sigterm_received = False
        self.at_time_limit = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: Optional[FrameType]) -> None:
        # After an earlier SIGTERM (a preemption or a stop), the run must not be continued automatically.
        self.at_time_limit |= number == signal.SIGUSR1 and not self.sigterm_received
        self.sigterm_received = True

    def wait(self, seconds: float) -> None:
        """Return after `seconds`, or as soon as a signal arrives."""
        readable, _, _ = select.select([self._reader], [], [], seconds)
        if readable:
            with contextlib.suppress(BlockingIOError):
                os.read(self._reader, 4096)


class Reserve:
    """Reserved disk space, so that the result can be written even if the job has filled the disk."""

    def __init__(self, path: str) -> None:
        self._path = path
        with contextlib.suppress(OSError), open(path, "wb") as file:
            file.write(os.urandom(RESERVE_BYTES))

    def release(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path)


def halve_reserve(path: str) -> None:
    """Release half of the disk space that a supervisor has reserved, so that another process can write a record."""
    with contextlib.suppress(OSError):
        os.truncate(path, RESERVE_BYTES // 2)


class JobLoop:
    """Supervises one job.

    `members` returns its living processes. `adopted` means that the job is not a child of this process. `finish` is
    called before the result is written, and returns the result to write. `refusal` returns why the job must not go on,
    or "". `command_jobs` are the jobs that the command has submitted to Slurm itself; `slurm_left` are those that have
    not ended with the job.
    """

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
        finish: Callable[[JobResult], JobResult] = lambda result: result,
        refusal: Callable[[], str] = lambda: "",
        command_jobs: Optional[CommandJobs] = None,
    ) -> None:
        self._run = run
        self._job = job
        self._spec = spec
        self._child = child
        self._members = members
        self._signals = signals
        self._adopted = adopted
        self._finish = finish
        self._refusal = refusal
        self._refused = ""
        self._stop_requested = False
        self.slurm_left: Tuple[int, ...] = ()
        self._command_jobs = command_jobs
        self._status: Optional[int] = None
        self._trainer: Optional[Process] = None
        self._monitor = JobMonitor(run, job, spec, Limits())
        self._reserve = Reserve(job.reserve)
        self._reaped = 0
        self._kills = False

    def run(self, kills_before: Optional[int]) -> JobResult:
        """Return once the job and all its processes have ended and its result is written."""
        unkillable = self._until_ended()
        self.slurm_left = self._jobs_in_slurm()
        kills = (count_oom_kills() or 0) - (kills_before or 0)
        # A job that has ended gets a result even if its files are damaged.
        with contextlib.suppress(OSError, ValueError):
            self._monitor.finish(time.monotonic())
        with contextlib.suppress(OSError, ValueError):
            write_event_index(self._run.root)
        evidence = gather_evidence(
            self._run,
            self._job,
            self._spec,
            self._status,
            stop_requested=self._stop_requested,
            sigterm_received=self._signals.sigterm_received,
            at_time_limit=self._signals.at_time_limit,
            oom_kills=kills,
            unkillable=len(unkillable),
            refused=self._refused,
            slurm_left=self.slurm_left,
        )
        result = judge_end(evidence, time.time())
        with contextlib.suppress(OSError, ValueError):
            record_adapter(self._run, ended_well=result.exit == 0 and not result.signal)
        if result.exit == 0 and not result.preempted and not result.stopped:
            remove_kept_links(self._run.root)
        self._reserve.release()
        result = self._finish(result)
        write_record(self._job.result, result)
        return result

    def _jobs_in_slurm(self) -> Tuple[int, ...]:
        """Return the numbers of the jobs that the command has left in Slurm. They are named in the job's output.

        `stop` cancels such jobs itself. After a SIGTERM, no job of the run starts beside them. At Slurm's time limit,
        they may be the jobs with which a script continues itself, so the run is not continued.
        """
        if self._command_jobs is None:
            return ()
        at_limit = self._signals.at_time_limit
        if not (self._refused or at_limit) and (self._signals.sigterm_received or self._stop_requested):
            return ()
        jobs = self._command_jobs
        numbers = (jobs.cancel() if self._refused else jobs.submitted(ending=at_limit)) or ()
        if numbers:
            listed = ", ".join(map(str, numbers))
            self._write(f"halfstep: {SUBMITS}: the command submitted jobs to Slurm, which still run: {listed}")
        return numbers

    def _until_ended(self) -> Tuple[int, ...]:
        """Return the pids that survived SIGKILL, once all other processes have ended."""
        ending: Optional[Ending] = None
        next_beat = 0.0
        while True:
            exited = self._has_exited()
            self._find_trainer()
            now = time.monotonic()
            if now >= next_beat:
                next_beat = now + BEAT_S
                self._show_life()
            request = read_record(self._job.stop, StopRequest)
            self._stop_requested |= request is not None
            ending = ending or self._begin_ending(exited, request, now)
            if ending is not None:
                if request is not None and request.grace_s <= 0:
                    ending.kill_by(now)
                self._kills = ending.kills(now)
                if ending.advance(now) and self._is_over(ending, now):
                    return ending.unkillable
            with contextlib.suppress(OSError, ValueError):
                self._monitor.check(now)
            self._signals.wait(ENDING_TICK_S if ending is not None else TICK_S)

    def _is_over(self, ending: Ending, now: float) -> bool:
        """Return True if the first process has exited, and no process since the processes were read.

        A process that starts a successor and exits, again and again, may be missed by every reading.
        """
        before = self._reaped
        exited = self._has_exited() and (self._reaped == before or ending.gives_up(now))
        return exited or bool(ending.unkillable)

    def _record_sigterm(self) -> None:
        """Record the SIGTERM to the job for the supervisor that judges it if this one is killed before its end."""
        started = read_record(self._job.supervisor, Started)
        if started is not None:
            with contextlib.suppress(OSError):
                write_record(self._job.supervisor, replace(started, sigterm=True))

    def _show_life(self) -> None:
        """Change the time of supervisor.json: a machine that does not see this process's lock sees that it is alive."""
        with contextlib.suppress(OSError):
            os.utime(self._job.supervisor)

    def _begin_ending(self, exited: bool, request: Optional[StopRequest], now: float) -> Optional[Ending]:
        """Return an `Ending` if processes must be ended, otherwise None.

        After a SIGTERM or a request to stop, which may come from another machine, the whole job is ended. After the
        first process has ended, the remaining processes are ended. A job that must not go on is killed.
        """
        self._refused = self._refusal()
        if self._refused:
            self._write(f"halfstep stopped this training: {UNSIGNED}: {self._refused}")
            return Ending(self._processes, now, 0.0)
        if self._signals.sigterm_received or request is not None:
            self._record_sigterm()
            return Ending(self._processes, now, request.grace_s if request is not None else self._spec.grace_s)
        if not exited:
            return None
        return Ending(self._processes, now, LEFTOVER_GRACE_S)

    def _write(self, line: str) -> None:
        """Append a line of halfstep's own to the job's output."""
        with contextlib.suppress(OSError), open(self._job.output, "ab") as file:
            file.write(f"{line}\n".encode("utf-8", "replace"))

    def _processes(self) -> List[Process]:
        """Return the living processes of the job. The monitor's nvidia-smi does not count."""
        return [process for process in self._members() if process.pid != self._monitor.own_pid]

    def _has_exited(self) -> bool:
        """Return True if the first process has exited. Reaps every child that has ended."""
        if self._adopted:
            return self._adopted_has_exited()
        while True:
            try:
                pid, status = reap_child(kills_group=self._kills)
            except ChildProcessError:
                return True
            self._reaped += 1 if pid else 0
            if pid == self._child.pid and not self._goes_on(status):
                self._status = status
            if pid == 0:
                return self._status is not None

    def _goes_on(self, status: int) -> bool:
        """Return True if the exit recorder was killed, and the trainer is now a child of this process.

        The exit recorder ends with the status of the trainer, after it has reaped the trainer.
        """
        trainer = self._trainer
        now = read_process(trainer.pid) if trainer is not None and os.WIFSIGNALED(status) else None
        if trainer is None or now is None or now.ticks != trainer.ticks:
            return False
        self._child = trainer
        return True

    def _find_trainer(self) -> None:
        if self._trainer is None and not self._adopted:
            children = (one for one in descendants(self._child.pid) if one.parent == self._child.pid)
            self._trainer = min(children, key=lambda one: (one.ticks, one.pid), default=None)

    def _adopted_has_exited(self) -> bool:
        """Return True if the first process of an adopted job has exited.

        Without an exit recorder, all processes of the job must have ended.
        """
        # The exit recorder writes the status before it ends.
        recorder = is_alive(self._child.pid, self._child.ticks, boot_id())
        self._status = read_exit(self._job)
        return self._status is not None or not (recorder or self._processes())
