"""End the agent if the laptop disconnects during a read-only request."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from typing import Callable, Iterator

GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL | getattr(select, "POLLRDHUP", 0)


class Hangup:
    """Ends this process if the other end of `fd` is closed while a block of `exit_allowed` runs.

    A request that changes the host is completed before the process ends. Between requests, the main loop detects the
    end of the stream.
    """

    def __init__(self, fd: int, before_end: Callable[[], None]) -> None:
        self._fd = fd
        self._before_end = before_end
        self._may_end = threading.Event()
        threading.Thread(target=self._wait, daemon=True).start()

    @contextlib.contextmanager
    def exit_allowed(self, may_end: bool) -> Iterator[None]:
        """Allow the process to end while the block runs."""
        if may_end:
            self._may_end.set()
        try:
            yield
        finally:
            self._may_end.clear()

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._fd, getattr(select, "POLLRDHUP", 0))
        while not any(event & GONE for _, event in poll.poll()):
            pass
        self._may_end.wait()
        self._before_end()
        os._exit(0)
