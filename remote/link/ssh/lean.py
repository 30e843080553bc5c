"""Loading paramiko only when it is needed, and only what is needed of it."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


def load(name: str) -> ModuleType:
    """The module of that name, with paramiko behind it.

    paramiko imports `invoke` for `Match exec` lines of a configuration that it reads itself; ours are read by ssh, or
    without such lines. That import is a third of the whole, so it is made to fail, which paramiko allows for.
    """
    hidden = "invoke" not in sys.modules
    if hidden:
        sys.modules["invoke"] = None  # type: ignore[assignment]
    try:
        return importlib.import_module(name)
    finally:
        if hidden:
            sys.modules.pop("invoke", None)
