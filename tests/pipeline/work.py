"""Count the calls of a function while another one runs: a measure of work that does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, FunctionType


def count_calls(function: object, action: Callable[[], object]) -> int:
    """Return how often `action` calls the function."""
    assert isinstance(function, FunctionType)
    count = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code is function.__code__

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(previous)
    return count
