"""Open stdout or stderr as a rich console, and read the answers to questions."""

from __future__ import annotations

import os
import sys
from typing import Literal

from rich.console import Console


def open_console(*, stderr: bool = False, soft_wrap: bool = False) -> Console:
    """Return a console on stdout or stderr. If NO_COLOR is set, the console uses no colours and no styles."""
    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(stderr=stderr, highlight=False, soft_wrap=soft_wrap, color_system=colours)


def read_line(console: Console) -> str:
    """Read a line from stdin. After Ctrl-C, end the question's line, so that the next message begins a line."""
    try:
        return sys.stdin.readline()
    except KeyboardInterrupt:
        console.print()
        raise
