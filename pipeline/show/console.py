"""Open stdout or stderr as a rich console."""

from __future__ import annotations

import os
from typing import Literal

from rich.console import Console


def open_console(*, stderr: bool = False, soft_wrap: bool = False) -> Console:
    """Return a console on stdout or stderr. If NO_COLOR is set, the console uses no colours and no styles."""
    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(stderr=stderr, highlight=False, soft_wrap=soft_wrap, color_system=colours)
