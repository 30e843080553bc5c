"""Folders under scratch/ in which somebody works for a while: a living one's is left alone, a dead one's is swept."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from typing import List, Tuple

from remote.protocol.parts import WRITER, is_gone, writer

TEMPORARY = "temporary.json"
OURS = re.compile(rf"[a-z]+-({WRITER})-\w+")
CLAIM = re.compile(rf"(.+)\.of-({WRITER})")


def own_name(kind: str) -> str:
    """A new name for a folder of this process."""
    return f"{kind}-{writer()}-{os.urandom(4).hex()}"


def claim(folder: str) -> None:
    """A folder whose name is not ours to choose will be swept once this process is dead. Call it before it is made."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(f"{folder}.of-{writer()}", "w", encoding="utf-8"):
        pass


def remove(folder: str) -> None:
    """The folder is gone, also where somebody took write permission from its own folders, and nobody claims it."""
    parent, name = os.path.split(folder)
    if os.path.lexists(folder):
        for path, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                os.chmod(path, 0o700)
        shutil.rmtree(folder, ignore_errors=True)
    for claimed, path, _ in _entries(parent):
        if claimed == name and path != folder:
            with contextlib.suppress(OSError):
                os.unlink(path)


def sweep_scratch(parent: str, keep: str = "") -> None:
    """No folder of a dead process lies in `parent`, save the one at the path `keep`; nor what it kept elsewhere."""
    for name, path, mark in _entries(parent):
        folder = os.path.join(parent, name)
        if is_gone(mark) and not (keep + os.sep).startswith(folder + os.sep):
            temporary = read_temporary(folder)
            if temporary:
                remove(temporary)
            remove(folder)
            if path != folder:
                with contextlib.suppress(OSError):
                    os.unlink(path)


def write_temporary(folder: str, temporary: str) -> None:
    """Whoever sweeps the folder sweeps that one too."""
    with open(os.path.join(folder, TEMPORARY), "w", encoding="utf-8") as file:
        json.dump({"path": temporary}, file)


def read_temporary(folder: str) -> str:
    """The folder elsewhere that goes with this one; empty where there is none."""
    try:
        with open(os.path.join(folder, TEMPORARY), encoding="utf-8") as file:
            return str(json.load(file)["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _entries(parent: str) -> List[Tuple[str, str, str]]:
    """(folder's name, path of what names its writer, writer) of everything in `parent` that has a writer."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            ours, claimed = OURS.fullmatch(name), CLAIM.fullmatch(name)
            path = os.path.join(parent, name)
            if ours is not None:
                found.append((name, path, ours.group(1)))
            elif claimed is not None:
                found.append((claimed.group(1), path, claimed.group(2)))
    return found
