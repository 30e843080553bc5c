"""Names that may lie in a project's tree, and the folders above them, checked before anything is opened."""

from __future__ import annotations

import os
import posixpath
import stat
from typing import Dict, Iterable, List, Set, Tuple

from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode

MAX_NAME = 255
MAX_PATH = 3000
NO_NAMES = frozenset({b"", b".", b".."})


def folder_of(path: str) -> str:
    """The folder above a checked name; empty for the tree itself."""
    return path.rpartition("/")[0]


def check_path(path: str) -> str:
    """`path`, which names something inside the tree and nothing else. Raises Refusal."""
    raw = os.fsencode(path)
    if not path or b"\0" in raw or len(raw) > MAX_PATH:
        raise _refused(path, "empty, too long, or holds a NUL byte")
    parts = raw.split(b"/")
    if not NO_NAMES.isdisjoint(parts):
        raise _refused(path, "not a plain path inside the project")
    if max(map(len, parts)) > MAX_NAME:
        raise _refused(path, f"a name longer than {MAX_NAME} bytes")
    return path


def check_link(path: str, target: str) -> str:
    """`target`, which is relative and stays inside the tree as seen from `path`. Raises Refusal."""
    landing = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if not target or "\0" in target or target.startswith("/") or landing == ".." or landing.startswith("../"):
        raise _refused(path, f"a link to {target!r}, which is outside the project")
    return target


def _refused(path: str, why: str) -> Refusal:
    shown = path if len(path) <= MAX_NAME else f"{path[:MAX_NAME]}..."
    return Refusal("bad-path", f"{shown!r} was not written: {why}", where=shown, exit_code=ExitCode.SYNC)


class Folders:
    """The folders of one tree; each is made, and seen to be a folder and not a link, once."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._good: Set[str] = set()

    def file(self, path: str) -> str:
        """The absolute path of a checked name."""
        return f"{self.root}/{path}"

    def make_parents(self, path: str) -> None:
        """Every folder above `path` is there and is a folder. Raises Refusal where a link or a file stands there."""
        parent = folder_of(path)
        missing: List[str] = []
        while parent not in self._good:
            missing.append(parent)
            if not parent:
                break
            parent = folder_of(parent)
        for folder in reversed(missing):
            self._make(folder)
            self._good.add(folder)

    def _make(self, folder: str) -> None:
        full = os.path.join(self.root, folder) if folder else self.root
        try:
            os.mkdir(full)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(full).st_mode):
                raise Refusal(
                    "in-the-way",
                    f"{folder!r} is not a folder on the host, and files of the project belong under it",
                    where=full,
                    exit_code=ExitCode.SYNC,
                ) from None

    def leads_outside(self, path: str) -> bool:
        """A folder above `path` is a link, so that what lies there is not of this tree."""
        parent = posixpath.dirname(path)
        while parent:
            try:
                if stat.S_ISLNK(os.lstat(self.file(parent)).st_mode):
                    return True
            except (FileNotFoundError, NotADirectoryError):
                pass
            parent = posixpath.dirname(parent)
        return False

    def prune(self, paths: Iterable[str]) -> None:
        """Folders above `paths` that are empty now are gone."""
        parents = {posixpath.dirname(path) for path in paths}
        for folder in sorted(
            {ancestor for parent in parents for ancestor in _ancestors(parent)}, key=len, reverse=True
        ):
            try:
                os.rmdir(self.file(folder))
            except OSError:
                continue
            self._good.discard(folder)


class Ways:
    """The folders above names that shall be: which are there, and where something else stands that stays.

    Each is looked at once. `going`: names that will be gone, and stand in nobody's way.
    """

    def __init__(self, folders: Folders, going: Set[str]) -> None:
        self._folders, self._going = folders, going
        self._known: Dict[str, Tuple[str, bool]] = {"": ("", os.path.lexists(folders.root))}

    def blocked_by(self, path: str) -> str:
        """The name of a file or a link that stands where a folder above `path` must be, or nothing."""
        return self._way(folder_of(path))[0]

    def has_folder_of(self, path: str) -> bool:
        """Something is there under the name of the folder above `path`."""
        return self._way(folder_of(path))[1]

    def _way(self, folder: str) -> Tuple[str, bool]:
        if folder not in self._known:
            blocker, there = self._way(folder_of(folder))
            try:
                stands = there and not stat.S_ISDIR(os.lstat(self._folders.file(folder)).st_mode)
            except (FileNotFoundError, NotADirectoryError):
                stands = there = False
            self._known[folder] = blocker or (folder if stands and folder not in self._going else ""), there
        return self._known[folder]


def _ancestors(folder: str) -> List[str]:
    found: List[str] = []
    while folder:
        found.append(folder)
        folder = posixpath.dirname(folder)
    return found
