"""Hearing how a process ends: by an exception nobody caught, or by itself."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any, Callable, Dict

LONGEST_MESSAGE = 2000


def watch_exit(pid: int, failed: Callable[[Dict[str, Any]], None], ended: Callable[[], None]) -> None:
    """`failed` hears of the exception that ends this process, `ended` of every end; forked children stay silent."""
    previous = sys.excepthook

    def told(kind: Any, error: Any, trace: Any) -> None:
        if os.getpid() == pid:
            failed({"type": kind.__name__, "message": str(error)[:LONGEST_MESSAGE]})
        previous(kind, error, trace)

    sys.excepthook = told
    atexit.register(lambda: ended() if os.getpid() == pid else None)
