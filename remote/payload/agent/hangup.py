"""Noticing that the laptop is gone while an answer is still being worked on."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from typing import Callable, Iterator

GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL | getattr(select, "POLLRDHUP", 0)


class Hangup:
    """Ends this process when the other end of `fd` is closed while something is only being looked at or followed.

    A change is finished first: it was asked for, and half of it helps nobody. Between two requests nothing is ended
    here either: whoever reads the requests meets the end of the line after the last of them.
    """

    def __init__(self, fd: int, before_end: Callable[[], None]) -> None:
        self._fd = fd
        self._before_end = before_end
        self._looking = threading.Event()
        threading.Thread(target=self._wait, daemon=True).start()

    @contextlib.contextmanager
    def ends(self, may_end: bool) -> Iterator[None]:
        """Whether the process may end while the block runs."""
        if may_end:
            self._looking.set()
        try:
            yield
        finally:
            self._looking.clear()

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._fd, getattr(select, "POLLRDHUP", 0))
        while not any(event & GONE for _, event in poll.poll()):
            pass
        self._looking.wait()
        self._before_end()
        os._exit(0)
