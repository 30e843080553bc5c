"""Temporary folders under scratch/. Each folder is owned by a process, and is removed when the process is dead."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
from typing import Iterator, List, Tuple

from remote.protocol.layout import PROJECTS, ProjectLayout
from remote.protocol.parts import WRITER, is_dead_writer, writer

TEMPORARY = "temporary.json"
OWNED_NAME = re.compile(rf"[a-z]+-({WRITER})-\w+")
OWNER_MARK = re.compile(rf"(.+)\.of-({WRITER})")


@contextlib.contextmanager
def owned_folder(workdir: str, layout: ProjectLayout, kind: str, *, keep: str = "") -> Iterator[str]:
    """Yield a new folder in the project's scratch/. Remove it afterwards, with the parents created for it.

    The folders of dead processes are removed too, except `keep`.
    """
    parent = os.path.join(workdir, layout.scratch)
    made = _make(parent)
    sweep_scratch(parent, keep=keep)
    folder = os.path.join(parent, new_owned_name(kind))
    try:
        os.mkdir(folder, 0o700)
        yield folder
    finally:
        remove(folder)
        # Also remove parents that a killed process made. A folder that is not empty stays.
        for one in (parent, os.path.join(workdir, layout.root), os.path.join(workdir, PROJECTS), *made):
            with contextlib.suppress(OSError):
                os.rmdir(one)


def _make(folder: str) -> List[str]:
    """Create a folder with its parents; return the folders that did not exist, innermost first."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(one)
    return missing


def new_owned_name(kind: str) -> str:
    """Return a new folder name that contains this process's id."""
    return f"{kind}-{writer()}-{os.urandom(4).hex()}"


def mark_owner(folder: str) -> None:
    """Record this process as the owner of a folder whose name does not contain its pid. Call it before mkdir."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(f"{folder}.of-{writer()}", "w", encoding="utf-8"):
        pass


def remove(folder: str) -> None:
    """Remove the folder and its owner mark, even if folders in it are not writable."""
    parent, name = os.path.split(folder)
    if _is_own_folder(folder):
        for path, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
    for marked, path, _ in _entries(parent):
        if marked == name and path != folder:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _is_own_folder(path: str) -> bool:
    """Return False for a link: in /tmp, another user may have put one in place of a folder that was deleted."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def sweep_scratch(parent: str, keep: str = "") -> None:
    """Remove the folders of dead processes in `parent`, except `keep`, and the temporary folders recorded for them."""
    for name, path, mark in _entries(parent):
        folder = os.path.join(parent, name)
        if is_dead_writer(mark) and not (keep + os.sep).startswith(folder + os.sep):
            temporary = recorded_temporary_folder(folder)
            if temporary:
                remove(temporary)
            remove(folder)
            if path != folder:
                with contextlib.suppress(OSError):
                    os.unlink(path)


def record_temporary_folder(folder: str, temporary: str) -> None:
    """Record a temporary folder outside `folder` that is removed together with it."""
    with open(os.path.join(folder, TEMPORARY), "w", encoding="utf-8") as file:
        json.dump({"path": temporary}, file)


def recorded_temporary_folder(folder: str) -> str:
    """Return the temporary folder recorded by `record_temporary_folder`, or "" if there is none."""
    try:
        with open(os.path.join(folder, TEMPORARY), encoding="utf-8") as file:
            return str(json.load(file)["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _entries(parent: str) -> List[Tuple[str, str, str]]:
    """Return (folder name, path of the entry that names the owner, owner) for every owned folder in `parent`."""
    entries = []
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            own_entry, marked = OWNED_NAME.fullmatch(name), OWNER_MARK.fullmatch(name)
            path = os.path.join(parent, name)
            if own_entry is not None:
                entries.append((name, path, own_entry.group(1)))
            elif marked is not None:
                entries.append((marked.group(1), path, marked.group(2)))
    return entries
