"""Callbacks at the end of a process: at an uncaught exception, and at every end."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any, Callable

from .report import Crash

LONGEST_MESSAGE = 2000


def watch_exit(pid: int, failed: Callable[[Crash], None], ended: Callable[[], None]) -> None:
    """Call `failed` with the uncaught exception that ends process `pid`, and `ended` at every end of the process.

    Forked children of the process call neither function.
    """
    previous = sys.excepthook

    def report(kind: Any, error: Any, trace: Any) -> None:
        if os.getpid() == pid:
            failed(Crash(kind.__name__, str(error)[:LONGEST_MESSAGE]))
        previous(kind, error, trace)

    sys.excepthook = report
    atexit.register(lambda: ended() if os.getpid() == pid else None)
