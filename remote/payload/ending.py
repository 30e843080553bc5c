"""How every process of a job ends: asked first, given time, then killed; none is left and no other is hit."""

from __future__ import annotations

import signal
from typing import Callable, List, Set, Tuple

from remote.payload.processes import Process, is_helper, send_signal

Members = Callable[[], List[Process]]
STUCK_AFTER_S = 15.0


class Ending:
    """One stop under way. `members` finds the living processes anew each time, for workers start and end meanwhile."""

    def __init__(self, members: Members, now: float, grace_s: float) -> None:
        self._members = members
        self._kill_at = now + grace_s
        self._asked: Set[Tuple[int, int]] = set()
        self.left: Tuple[int, ...] = ()

    def hasten(self, kill_at: float) -> None:
        """No process gets longer than until then."""
        self._kill_at = min(self._kill_at, kill_at)

    def advance(self, now: float) -> bool:
        """The next bit of work is done; True once nobody is left, or those left cannot even be killed."""
        members = self._members()
        if not members:
            return True
        if now < self._kill_at:
            self._ask(members)
            return False
        for process in members:
            send_signal(process, signal.SIGKILL)
        if now < self._kill_at + STUCK_AFTER_S:
            return False
        self.left = tuple(process.pid for process in members)
        return True

    def _ask(self, members: List[Process]) -> None:
        living = {process.pid for process in members}
        for process in members:
            key = (process.pid, process.ticks)
            if key not in self._asked and not is_helper(process, living):
                self._asked.add(key)
                send_signal(process, signal.SIGTERM)
                send_signal(process, signal.SIGCONT)
