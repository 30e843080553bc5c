"""Import modules on demand, and delay Ctrl-C until the import has finished."""

from __future__ import annotations

import contextlib
import importlib
import signal
from collections.abc import Iterator
from types import ModuleType


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
