"""How every process of a job ends: asked first, given time, then killed; none is left and no other is hit."""

from __future__ import annotations

import signal
from typing import Callable, List, Set, Tuple

from remote.payload.processes.identity import Process, is_helper, send_signal

Members = Callable[[], List[Process]]
STUCK_AFTER_S = 15.0
ALL_ASKED_AFTER = 0.5


class Ending:
    """One stop under way. `members` finds the living processes anew each time, for workers start and end meanwhile.

    First only the topmost are asked: the trainer, or the launcher that passes it on; whom a launcher leaves behind is
    a topmost process then. The services of a trainer (a logger, data workers) are what it saves with, so they are left
    alone until half of the time is over. Then everybody is asked, for a launcher may have kept it to itself.
    """

    def __init__(self, members: Members, now: float, grace_s: float) -> None:
        self._members = members
        self._all_asked_at = now + ALL_ASKED_AFTER * grace_s
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
            self._ask(self._everybody(members) if now >= self._all_asked_at else topmost(members))
            return False
        for process in members:
            send_signal(process, signal.SIGKILL)
        if now < self._kill_at + STUCK_AFTER_S:
            return False
        self.left = tuple(process.pid for process in members)
        return True

    def _everybody(self, members: List[Process]) -> List[Process]:
        living = {process.pid for process in members}
        return [process for process in members if not is_helper(process, living)]

    def _ask(self, processes: List[Process]) -> None:
        for process in processes:
            key = (process.pid, process.ticks)
            if key not in self._asked:
                self._asked.add(key)
                send_signal(process, signal.SIGTERM)
                # A frozen process hears nothing until it goes on.
                send_signal(process, signal.SIGCONT)


def topmost(members: List[Process]) -> List[Process]:
    """Those whose parent is none of them."""
    living = {process.pid for process in members}
    return [process for process in members if process.parent not in living]
