"""Wait for a condition, with a deadline that is long enough for a slow machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 120.0


def until(true: Callable[[], T], what: str = "it", seconds: float = PATIENCE_S) -> T:
    """Return the first true result of `true()`. Raises AssertionError with `what` after that many seconds.

    The pauses are three times as long as a call, so that an expensive question does not slow down what it waits for.
    """
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        if answer := true():
            return answer
        now = time.monotonic()
        assert now < deadline, f"{what} did not become true in {seconds:g} s"
        time.sleep(min(max(0.01, 3 * (now - asked)), 0.3))
