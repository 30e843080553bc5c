"""Wait for a condition, with a deadline that is long enough for a slow machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 120.0


def until(true: Callable[[], T], what: str = "it", seconds: float = PATIENCE_S) -> T:
    """Return the first true result of `true()`. Raises AssertionError with `what` after that many seconds."""
    deadline = time.monotonic() + seconds
    while not (answer := true()):
        assert time.monotonic() < deadline, f"{what} did not become true in {seconds:g} s"
        time.sleep(0.01)
    return answer
