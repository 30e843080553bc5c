"""Folders that a fixer made: the mark in them, and taking them away again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import Any, Dict, List

from remote.payload.files.atomic import write_whole
from remote.payload.tree.state import Project
from remote.protocol.values import dumps

MARK = "halfstep.json"
MADE = ".made"


def read_mark(folder: str) -> Dict[str, Any]:
    """What the mark says; nothing where there is none, so that a folder of somebody else's is never taken for ours."""
    try:
        with open(os.path.join(folder, MARK), encoding="utf-8") as file:
            mark = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return mark if isinstance(mark, dict) and "state" in mark else {}


def note_made(project: Project, fixer: str, path: str) -> None:
    """The folder `path` is on record as made by the fixer, so that undo takes it away."""
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:24] + MADE
    write_whole(os.path.join(project.at(project.layout.undo), fixer, name), dumps({"path": path}))


def take_away(project: Project, fixer: str) -> List[str]:
    """The folders that the fixer made and that still bear its mark are gone; their paths."""
    folder = os.path.join(project.at(project.layout.undo), fixer)
    gone: List[str] = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if not name.endswith(MADE):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            path = str(json.load(file)["path"])
        if read_mark(path):
            shutil.rmtree(path)
            gone.append(path)
        os.unlink(os.path.join(folder, name))
    return gone
