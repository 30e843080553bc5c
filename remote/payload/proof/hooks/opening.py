"""Putting a function of ours around one of torch's, and what the seams know together."""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any, Callable, Optional, Tuple

_MARK = "__halfstep_opened__"


class Handles:
    """Handles of hooks that torch calls; at most one set of them is registered."""

    def __init__(self) -> None:
        self._handles: Tuple[Any, ...] = ()

    def renew(self, *handles: Any) -> None:
        """Only these are registered now."""
        for handle in self._handles:
            handle.remove()
        self._handles = handles


class Training:
    """The seams' shared state: where in a step the process is, and which hooks of torch's are registered."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.optimizer_hooks = Handles()
        self.module_hooks = Handles()
        self.released = False
        self.backward_depth = 0
        self.module_depth = 0
        self.current: Optional[Any] = None
        self.current_applied = False
        self.scaled_from: Optional[Any] = None
        self.scaled_to: Optional[Any] = None


def replace(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    """`owner.name` is `wrapper(original)`, where there is such a thing and it is not wrapped already."""
    original = getattr(owner, name, None)
    if original is not None and not hasattr(original, _MARK):
        wrapped = functools.wraps(original)(wrapper(original))
        setattr(wrapped, _MARK, True)
        setattr(owner, name, wrapped)


def is_wanted(original: Any, *given: Any) -> bool:
    """Whether `enabled` is true among these arguments, or left to its default."""
    one, args, kwargs = given
    return bool(inspect.signature(original).bind(one, *args, **kwargs).arguments.get("enabled", True))
