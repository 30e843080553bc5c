"""The mark file in folders that a fixer created, and the removal of such folders."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import Any, Dict, List

from remote.payload.files.atomic import sync_folder, write_atomic
from remote.payload.tree.state import Project
from remote.protocol.values import dumps

MARK = "halfstep.json"
MADE = ".made"
NEW = ".halfstep-new"
REMOVED = ".halfstep-removed"


def read_mark(folder: str) -> Dict[str, Any]:
    """Return the content of the mark file, or an empty dict if the file is missing or was not written by halfstep."""
    try:
        with open(os.path.join(folder, MARK), encoding="utf-8") as file:
            mark = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return mark if isinstance(mark, dict) and "state" in mark else {}


def begin_marked(folder: str, mark: Dict[str, Any]) -> None:
    """Write the mark to `folder`. A new folder appears together with its mark."""
    if not os.path.isdir(folder):
        beside = folder + NEW
        shutil.rmtree(beside, ignore_errors=True)
        os.makedirs(beside)
        write_atomic(os.path.join(beside, MARK), dumps(mark))
        os.rename(beside, folder)
        sync_folder(os.path.dirname(folder))
    else:
        write_atomic(os.path.join(folder, MARK), dumps(mark))


def discard(folder: str) -> None:
    """Remove the folder. It is renamed first, so that an interrupted removal leaves no partial folder under its name.

    The next call completes an interrupted removal.
    """
    removed = folder + REMOVED
    shutil.rmtree(removed, ignore_errors=True)
    if os.path.isdir(folder) and not os.path.islink(folder):
        os.rename(folder, removed)
        shutil.rmtree(removed)


def record_made_folder(project: Project, fixer: str, path: str) -> None:
    """Record that the fixer created the folder `path`, so that undo removes it."""
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:24] + MADE
    write_atomic(os.path.join(project.at(project.layout.undo), fixer, name), dumps({"path": path}))


def remove_made_folders(project: Project, fixer: str) -> List[str]:
    """Remove the folders that the fixer created, if they still contain its mark; return their paths."""
    folder = os.path.join(project.at(project.layout.undo), fixer)
    removed: List[str] = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if not name.endswith(MADE):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            path = str(json.load(file)["path"])
        if read_mark(path):
            discard(path)
            removed.append(path)
        os.unlink(os.path.join(folder, name))
    return removed
