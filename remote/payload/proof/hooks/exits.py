"""Callbacks for an uncaught exception, and for the exit of the Python interpreter."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any, Callable

from .foreign import result_of
from .report import Crash

LONGEST_MESSAGE = 2000


def watch_exit(pid: int, failed: Callable[[Crash], None], ended: Callable[[], None]) -> None:
    """Call `failed` with the uncaught exception that ends process `pid`, and `ended` when its interpreter exits.

    Neither is called after a signal, after `os._exit` or in forked children.
    """
    previous = sys.excepthook

    def report(kind: Any, error: Any, trace: Any) -> None:
        if os.getpid() == pid:
            failed(Crash(kind.__name__, result_of(lambda: str(error), "")[:LONGEST_MESSAGE]))
        previous(kind, error, trace)

    sys.excepthook = report
    atexit.register(lambda: ended() if os.getpid() == pid else None)
