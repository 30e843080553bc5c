"""The memory plan that the built-in trainer wrote under the proof."""

from __future__ import annotations

import json
from typing import Optional

from remote.protocol.training import MemoryPlan
from remote.protocol.values import decode


def read_memory_plan(path: str) -> Optional[MemoryPlan]:
    """Return the plan in the file `path`, or None if the command did not write a plan."""
    try:
        with open(path, encoding="utf-8") as file:
            return decode(MemoryPlan, json.load(file))
    except (OSError, ValueError):
        return None
