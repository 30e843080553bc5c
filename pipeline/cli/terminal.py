"""Restore the settings of the terminal, which a question for a password changes while it is open."""

from __future__ import annotations

import contextlib
import sys
import termios
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def restored_terminal() -> Iterator[None]:
    """Restore the settings that the terminal had before the block.

    If Ctrl-C ends the program while another thread reads a password, that thread does not switch the echo on again.
    """
    before = _settings()
    try:
        yield
    finally:
        # Without a change, a process in the background would be stopped for nothing.
        if before is not None and _settings() != before:
            with contextlib.suppress(termios.error, ValueError, OSError):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _settings() -> list[Any] | None:
    """Return the settings of the terminal at stdin, or None if it is none."""
    with contextlib.suppress(termios.error, ValueError, OSError, TypeError):
        return termios.tcgetattr(sys.stdin)
    return None
