"""`fixers: {runtime: auto}`: apply the precision plan inside the training process, and record each change."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import List, Optional

from .places import Project

RUNTIME = "HALFSTEP_RUNTIME"
"""The environment variable with a RuntimePlan as JSON. If it is unset, the process is only observed."""


@dataclass(frozen=True)
class RuntimePlan:
    """The dtypes of frozen parameters, trained parameters and autocast.

    `scaler`: plain training loops get a loss scale.
    """

    mode: str
    frozen: str
    trained: str
    autocast: str
    scaler: bool = False
    init_scale: float = 65536.0


def plan_of_environment() -> Optional[RuntimePlan]:
    """Return the plan to apply, or None."""
    text = os.environ.get(RUNTIME, "")
    return RuntimePlan(**json.loads(text)) if text else None


class Announcements:
    """The changes made in this process. Each change is printed once, and included in the report of the proof."""

    def __init__(self) -> None:
        self.lines: List[str] = []
        self._project: Optional[Project] = None

    def announce(self, message: str) -> None:
        """Print `halfstep runtime: MESSAGE` to stderr, once and on rank 0 only."""
        if message in self.lines:
            return
        self.lines.append(message)
        if os.environ.get("RANK", "0") == "0":
            print(f"halfstep runtime: {message}", file=sys.stderr, flush=True)

    def at(self) -> str:
        """Return ' at train.py:12', with the project's line on the stack, or "" if there is none."""
        self._project = self._project or Project()
        place = self._project.place()
        return f" at {place.file}:{place.line}" if place.file else ""


CHANGES = Announcements()
