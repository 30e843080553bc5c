"""Find the files that a job created in its copy of the code, and move them to the copy of a later job."""

from __future__ import annotations

import os
import stat
from typing import AbstractSet, Iterator, List, Tuple

from remote.payload.checkpoints.files import step_of

COMPILED = (".pyc", ".pyo", ".so", ".pyd", ".o")
"""Files that a build made from the earlier code. They stay there, because the new code may differ."""
NOT_MOVED = ("__pycache__",)
MOST_LEVELS = 100


def names_in(copy: str, folder: str = "") -> Iterator[str]:
    """Yield the relative path of each file and link below a folder of `copy`. Links are not followed."""
    for entry in os.scandir(os.path.join(copy, folder)):
        name = f"{folder}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from names_in(copy, f"{name}/")
        else:
            yield name


def move_created(earlier: str, code: str, sent: AbstractSet[str]) -> List[str]:
    """Move what is in `earlier`, but not in `sent`, to the same paths in `code`, and return the moved paths.

    Nothing is copied, and no existing path is replaced. A folder is moved by one rename if all of it can be moved. A
    trainer checkpoint is moved completely or not at all. Compiled files stay, as do links to absolute paths outside of
    `code`, such as those to the data of the earlier job.
    """
    return [name for name in _movable(earlier, code, "", sent, 0)[0] if _move(earlier, code, name)]


def _movable(earlier: str, code: str, folder: str, sent: AbstractSet[str], level: int) -> Tuple[List[str], bool]:
    """Return the paths below `folder` to move, and whether these are everything in it."""
    names: List[str] = []
    complete = True
    try:
        entries = sorted(os.scandir(os.path.join(earlier, folder)), key=lambda entry: entry.name)
    except OSError:
        return [], False
    for entry in entries:
        name = f"{folder}{entry.name}"
        below: List[str] = []
        if not entry.is_dir(follow_symlinks=False):
            all_below = name not in sent and _is_result(entry, code)
        elif entry.name not in NOT_MOVED and level < MOST_LEVELS and _may_hold(os.path.join(code, name)):
            below, all_below = _movable(earlier, code, f"{name}/", sent, level + 1)
        else:
            all_below = False
        if all_below and not os.path.lexists(os.path.join(code, name)):
            names.append(name)
        else:
            complete = False
            names += below if step_of(entry.name) < 0 else []
    return names, complete


def _may_hold(folder: str) -> bool:
    """Return False for a file, and for a link, which may lead to the project's tree."""
    try:
        return stat.S_ISDIR(os.lstat(folder).st_mode)
    except OSError:
        return True


def _is_result(entry: os.DirEntry[str], code: str) -> bool:
    if entry.is_symlink():
        target = os.readlink(entry.path)
        return not os.path.isabs(target) or target.startswith(code + os.sep)
    return not entry.name.endswith(COMPILED)


def _move(earlier: str, code: str, name: str) -> bool:
    source, target = os.path.join(earlier, name), os.path.join(code, name)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(source, target)
    except OSError:
        return False
    return True
