"""Read the docstring of a training script: the findings that it must lead to, and the length of its run."""

from __future__ import annotations

import re
from pathlib import Path


def declared(key: str, script: Path) -> list[tuple[str, str]]:
    """Return the checks and severities of a docstring's line such as `expects: labels-end (error), adapter-moves`."""
    line = re.search(rf"^{key}: (.+)$", script.read_text(), re.MULTILINE)
    return re.findall(r"([\w-]+)(?: \((\w+)\))?", line[1]) if line else []


def planned_steps(script: Path) -> str:
    """Return the length of the whole run, of a docstring's line such as `runs: 1000`; empty without it."""
    line = re.search(r"^runs: (\d+)$", script.read_text(), re.MULTILINE)
    return line[1] if line else ""
