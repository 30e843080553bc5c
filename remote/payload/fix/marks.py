"""Folders that a fixer made: the mark in them, and taking them away again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import Any, Dict, List

from remote.payload.files.atomic import sync_folder, write_whole
from remote.payload.tree.state import Project
from remote.protocol.values import dumps

MARK = "halfstep.json"
MADE = ".made"
NEW = ".halfstep-new"
REMOVED = ".halfstep-removed"


def read_mark(folder: str) -> Dict[str, Any]:
    """What the mark says; nothing where there is none, so that a folder of somebody else's is never taken for ours."""
    try:
        with open(os.path.join(folder, MARK), encoding="utf-8") as file:
            mark = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return mark if isinstance(mark, dict) and "state" in mark else {}


def begin_marked(folder: str, mark: Dict[str, Any]) -> None:
    """`folder` is there and bears the mark. A new one never exists without it: it is made beside, then renamed."""
    if not os.path.isdir(folder):
        beside = folder + NEW
        shutil.rmtree(beside, ignore_errors=True)
        os.makedirs(beside)
        write_whole(os.path.join(beside, MARK), dumps(mark))
        os.rename(beside, folder)
        sync_folder(os.path.dirname(folder))
    else:
        write_whole(os.path.join(folder, MARK), dumps(mark))


def discard(folder: str) -> None:
    """No folder of that name is left. It is renamed first, so that a deletion that is cut short leaves no half of it
    under its own name; the rest goes with the next call."""
    gone = folder + REMOVED
    shutil.rmtree(gone, ignore_errors=True)
    if os.path.isdir(folder) and not os.path.islink(folder):
        os.rename(folder, gone)
        shutil.rmtree(gone)


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
            discard(path)
            gone.append(path)
        os.unlink(os.path.join(folder, name))
    return gone
