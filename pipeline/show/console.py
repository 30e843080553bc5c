"""A stream to the terminal, as its user wants it."""

from __future__ import annotations

import os
from typing import Literal

from rich.console import Console


def open_console(*, stderr: bool = False, soft_wrap: bool = False) -> Console:
    """stdout or stderr. NO_COLOR, set to anything, leaves text alone: neither colours nor bold nor dim."""
    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(stderr=stderr, highlight=False, soft_wrap=soft_wrap, color_system=colours)
