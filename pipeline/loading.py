"""Import modules on demand, and delay Ctrl-C until the import has finished."""

from __future__ import annotations

import contextlib
import importlib
import signal
from collections.abc import Iterator
from types import ModuleType
from typing import Any


class LazyModule:
    """A module that is imported when one of its attributes is read first.

    For code that only a stage with work to do needs: a finished run starts without it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(load(self._name), attribute)


def load(name: str) -> ModuleType:
    """Import and return the module `name`."""
    with uninterrupted():
        return importlib.import_module(name)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay SIGINT until the end of the block, because an interrupted import raises unrelated errors."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
