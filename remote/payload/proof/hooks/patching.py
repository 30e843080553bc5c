"""Replace functions of torch with wrappers, and keep the state that these patches share."""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any, Callable, Optional, Tuple

_MARK = "__halfstep_patched__"


class Handles:
    """Handles of torch's own hooks. At most one set of hooks is registered."""

    def __init__(self) -> None:
        self._handles: Tuple[Any, ...] = ()

    def renew(self, *handles: Any) -> None:
        """Remove the registered hooks and keep these handles instead."""
        for handle in self._handles:
            handle.remove()
        self._handles = handles


class Training:
    """The current position in a training step, and the registered hooks of torch.

    `stepping`: the optimizer in a call of a scaler's `step`. `scaler_applied`: the scaler has called the optimizer's
    step. `unscaled_loss` and `scaled_loss`: the arguments and the result of the last `scaler.scale`.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.optimizer_hooks = Handles()
        self.module_hooks = Handles()
        self.released = False
        self.backward_depth = 0
        self.module_depth = 0
        self.stepping: Optional[Any] = None
        self.scaler_applied = False
        self.unscaled_loss: Optional[Any] = None
        self.scaled_loss: Optional[Any] = None


def replace(owner: Any, name: str, wrapper: Callable[[Any], Any], mark: str = _MARK) -> None:
    """Replace `owner.name` with `wrapper(original)`, if it exists and does not have this mark yet."""
    original = getattr(owner, name, None)
    if original is not None and not hasattr(original, mark):
        wrapped = functools.wraps(original)(wrapper(original))
        setattr(wrapped, mark, True)
        setattr(owner, name, wrapped)


def is_enabled(function: Any, *call: Any) -> bool:
    """Return the argument `enabled`, True by default, of the call `function(self, *args, **kwargs)`."""
    instance, args, kwargs = call
    return bool(inspect.signature(function).bind(instance, *args, **kwargs).arguments.get("enabled", True))


def is_compiling(torch: Any) -> bool:
    """Return True if torch.compile traces the caller."""
    compiler = getattr(torch, "compiler", None)
    return bool(compiler is not None and compiler.is_compiling())
