"""End every process of a job: SIGTERM, a grace period, then SIGKILL. No other process is ever signalled."""

from __future__ import annotations

import signal
from typing import Callable, List, Set, Tuple

from remote.payload.processes.identity import Process, is_helper, send_signal

Members = Callable[[], List[Process]]
STUCK_AFTER_S = 15.0
TERMINATE_ALL_AFTER = 0.5


class Ending:
    """A stop in progress. `members` returns the job's living processes; it is called at every step.

    First, only the topmost processes get SIGTERM: the trainer, or the launcher, which forwards it. Helpers (a logger,
    data workers) are spared, because the trainer needs them to save a checkpoint. After half of the grace period every
    other process gets SIGTERM too, because not every launcher forwards it. At the end of the grace period, every
    remaining process is killed.
    """

    def __init__(self, members: Members, now: float, grace_s: float) -> None:
        self._members = members
        self._terminate_all_at = now + TERMINATE_ALL_AFTER * grace_s
        self._kill_at = now + grace_s
        self._terminated: Set[Tuple[int, int]] = set()
        self.unkillable: Tuple[int, ...] = ()

    def kill_by(self, kill_at: float) -> None:
        """Kill the remaining processes at `kill_at` (monotonic seconds) if the grace period ends later."""
        self._kill_at = min(self._kill_at, kill_at)

    def kills(self, now: float) -> bool:
        """Return True at the end of the grace period."""
        return now >= self._kill_at

    def gives_up(self, now: float) -> bool:
        """Return True if SIGKILL was sent so long ago that the remaining processes cannot be killed."""
        return now >= self._kill_at + STUCK_AFTER_S

    def advance(self, now: float) -> bool:
        """Send the signals that are due.

        Return True once all processes have ended, or if the remaining processes cannot be killed. A process that starts
        a successor and exits can be missed: the caller compares with the children that have ended meanwhile.
        """
        members = self._members()
        if not members:
            return True
        if not self.kills(now):
            self._terminate(_without_helpers(members) if now >= self._terminate_all_at else _topmost(members))
            return False
        for process in members:
            send_signal(process, signal.SIGKILL)
        if not self.gives_up(now):
            return False
        self.unkillable = tuple(process.pid for process in members)
        return True

    def _terminate(self, processes: List[Process]) -> None:
        for process in processes:
            key = (process.pid, process.ticks)
            if key not in self._terminated:
                self._terminated.add(key)
                send_signal(process, signal.SIGTERM)
                # A stopped process handles no signal until it continues.
                send_signal(process, signal.SIGCONT)


def _without_helpers(members: List[Process]) -> List[Process]:
    living = {process.pid for process in members}
    return [process for process in members if not is_helper(process, living)]


def _topmost(members: List[Process]) -> List[Process]:
    """Return the processes whose parent is not among `members`."""
    living = {process.pid for process in members}
    return [process for process in members if process.parent not in living]
