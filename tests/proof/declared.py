"""Read the docstring of a training script, which declares its expected findings and the length of its run."""

from __future__ import annotations

import re
from pathlib import Path


def declared(key: str, script: Path) -> list[tuple[str, str]]:
    """Return the checks and severities in a docstring line such as `expects: labels-end (error), adapter-moves`."""
    line = re.search(rf"^{key}: (.+)$", script.read_text(), re.MULTILINE)
    return re.findall(r"([\w-]+)(?: \((\w+)\))?", line[1]) if line else []


def planned_steps(script: Path) -> str:
    """Return the length of the whole run from a docstring line such as `runs: 1000`, or "" without one."""
    line = re.search(r"^runs: (\d+)$", script.read_text(), re.MULTILINE)
    return line[1] if line else ""
