"""Putting a function of ours around one of torch's, and what the seams know together."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional


class Training:
    """The seams' shared knowledge of where in a step the process is."""

    def __init__(self) -> None:
        self.backward_depth = 0
        self.module_depth = 0
        self.current: Optional[Any] = None
        self.current_applied = False
        self.scaled_from: Optional[Any] = None
        self.scaled_to: Optional[Any] = None


def replace(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    """`owner.name` is `wrapper(original)`, where there is such a thing."""
    original = getattr(owner, name, None)
    if original is not None:
        setattr(owner, name, functools.wraps(original)(wrapper(original)))


def is_wanted(original: Any, *given: Any) -> bool:
    """Whether `enabled` is true among these arguments, or left to its default."""
    one, args, kwargs = given
    return bool(inspect.signature(original).bind(one, *args, **kwargs).arguments.get("enabled", True))
