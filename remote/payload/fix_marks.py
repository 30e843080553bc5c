"""The mark in a folder that a fixer made: what it was made by, and whether it was finished."""

from __future__ import annotations

import json
import os
from typing import Any, Dict

MARK = "halfstep.json"


def read_mark(folder: str) -> Dict[str, Any]:
    """What the mark says; nothing where there is none, so that a folder of somebody else's is never taken for ours."""
    try:
        with open(os.path.join(folder, MARK), encoding="utf-8") as file:
            mark = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return mark if isinstance(mark, dict) and "state" in mark else {}
