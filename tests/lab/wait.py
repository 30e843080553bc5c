"""Waiting for what must become true, with a deadline that no slow machine meets."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 60.0


def until(true: Callable[[], object], what: str = "it", seconds: float = PATIENCE_S) -> None:
    """`true()` has answered yes. Raises AssertionError naming `what` after so many seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what} did not become true in {seconds:g} s"
        time.sleep(0.01)
