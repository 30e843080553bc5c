"""The loop around one running job: wait, watch, end every process, judge, write the result last."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass
from types import FrameType
from typing import Callable, List, Optional, Tuple

from remote.payload.checkpoints.adapter import seal_adapter
from remote.payload.files.records import read_record, write_record
from remote.payload.jobs.evidence import gather_evidence, stop_path
from remote.payload.jobs.oom import count_oom_kills
from remote.payload.jobs.supervisor_watch import Limits, Watch
from remote.payload.jobs.verdict import judge_end
from remote.payload.jobs.witness import read_exit
from remote.payload.output.events import seal_events
from remote.payload.processes.ending import Ending
from remote.payload.processes.identity import Process, boot_id, is_alive
from remote.protocol.jobs import JobResult, JobSpec
from remote.protocol.layout import JobLayout, RunLayout

LEFTOVER_GRACE_S = 10.0
TICK_S = 1.0
ENDING_TICK_S = 0.05
RESERVE_BYTES = 64 * 1024


@dataclass(frozen=True)
class StopWish:
    """What job.stop left for the supervisor before it signalled: this end was asked for, with so much time to save."""

    grace_s: float
    at_unix: float = 0.0


def reserve_path(job: JobLayout) -> str:
    """Where a running job holds a little disk back."""
    return f"{job.root}/reserve"


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
        self._reserve = Reserve(reserve_path(job))

    def keep(self, kills_before: Optional[int]) -> JobResult:
        """The job has ended, no process of it is left, and its result is written."""
        left = self._stay()
        kills = (count_oom_kills() or 0) - (kills_before or 0)
        # Whatever is wrong with its files, a job that ended has a result.
        with contextlib.suppress(OSError, ValueError):
            self._watch.finish(time.monotonic())
        with contextlib.suppress(OSError, ValueError):
            seal_events(self._run.root)
        evidence = gather_evidence(
            self._run,
            self._job,
            self._spec,
            self._status,
            sigterm_received=self._signals.told,
            oom_kills=kills,
            left=len(left),
        )
        result = judge_end(evidence, time.time())
        with contextlib.suppress(OSError, ValueError):
            seal_adapter(self._run, ended_well=result.exit == 0 and not result.signal)
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
            with contextlib.suppress(OSError, ValueError):
                self._watch.look(now)
            self._signals.wait(ENDING_TICK_S if ending is not None else TICK_S)

    def _gone(self) -> bool:
        """The first process has ended; everything that can be reaped was."""
        if self._adopted:
            return self._adopted_gone()
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == self._child.pid:
                self._status = status
            if pid == 0:
                return self._status is not None

    def _adopted_gone(self) -> bool:
        """The same of a job that is not our child: its witness ended, or, where that was killed, every process."""
        if is_alive(self._child.pid, self._child.ticks, boot_id()):
            return False
        self._status = read_exit(self._job)
        return self._status is not None or not self._members()
