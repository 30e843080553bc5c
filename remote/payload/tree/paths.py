"""Paths inside a project's tree and the folders above them, checked before any file is opened."""

from __future__ import annotations

import os
import posixpath
import stat
from typing import Dict, Iterable, List, Set, Tuple

from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode

MAX_NAME = 255
MAX_PATH = 3000
FORBIDDEN_NAMES = frozenset({b"", b".", b".."})


def folder_of(path: str) -> str:
    """Return the folder above a checked path, or "" for the tree itself."""
    return path.rpartition("/")[0]


def check_path(path: str) -> str:
    """Return `path` if it is inside the tree. Raises Refusal otherwise."""
    raw = os.fsencode(path)
    if not path or b"\0" in raw or len(raw) > MAX_PATH:
        raise _refused(path, "it is empty, too long, or contains a NUL byte")
    parts = raw.split(b"/")
    if not FORBIDDEN_NAMES.isdisjoint(parts):
        raise _refused(path, "it is not a plain path inside the project")
    if max(map(len, parts)) > MAX_NAME:
        raise _refused(path, f"a part of it is longer than {MAX_NAME} bytes")
    return path


def check_link(path: str, target: str) -> str:
    """Return the `target` of the link at `path` if it is a relative path that leads to a place inside the tree.

    Raises Refusal otherwise.
    """
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if not target or "\0" in target or target.startswith("/") or resolved == ".." or resolved.startswith("../"):
        raise _refused(path, f"it links to {target!r}, outside the project")
    return target


def _refused(path: str, why: str) -> Refusal:
    shortened = path if len(path) <= MAX_NAME else f"{path[:MAX_NAME]}..."
    return Refusal("bad-path", f"{shortened!r} was not written: {why}", where=shortened, exit_code=ExitCode.SYNC)


class Folders:
    """The folders of one tree. A missing folder is created. An existing folder must not be a link."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._checked: Set[str] = set()

    def file(self, path: str) -> str:
        """Return the absolute path of a checked path."""
        return f"{self.root}/{path}"

    def make_parents(self, path: str) -> None:
        """Create every folder above `path`. Raises Refusal if a link or a file is in the way."""
        parent = folder_of(path)
        missing: List[str] = []
        while parent not in self._checked:
            missing.append(parent)
            if not parent:
                break
            parent = folder_of(parent)
        for folder in reversed(missing):
            self._make(folder)
            self._checked.add(folder)

    def _make(self, folder: str) -> None:
        full = os.path.join(self.root, folder) if folder else self.root
        try:
            os.mkdir(full)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(full).st_mode):
                raise Refusal(
                    "in-the-way",
                    f"{folder!r} is not a folder on the host, but the project has files under it",
                    where=full,
                    exit_code=ExitCode.SYNC,
                ) from None

    def leads_outside(self, path: str) -> bool:
        """Return True if a folder above `path` is a link, so that `path` may be outside the tree."""
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
        """Remove the folders above `paths` that have become empty."""
        parents = {posixpath.dirname(path) for path in paths}
        for folder in sorted(
            {ancestor for parent in parents for ancestor in _ancestors(parent)}, key=len, reverse=True
        ):
            try:
                os.rmdir(self.file(folder))
            except OSError:
                continue
            self._checked.discard(folder)


class ParentFolders:
    """The folders above new paths: which of them exist, and which are blocked by a file or a link.

    Each folder is read once. Paths in `deleted` will be deleted before the new paths are created, so they block
    nothing.
    """

    def __init__(self, folders: Folders, deleted: Set[str]) -> None:
        self._folders, self._deleted = folders, deleted
        self._known: Dict[str, Tuple[str, bool]] = {"": ("", os.path.lexists(folders.root))}

    def blocked_by(self, path: str) -> str:
        """Return the file or link that is in the place of a folder above `path`, or "" if there is no such file."""
        return self._lookup(folder_of(path))[0]

    def exists_above(self, path: str) -> bool:
        """Return True if the parent folder of `path` exists, or a file or link is in its place."""
        return self._lookup(folder_of(path))[1]

    def _lookup(self, folder: str) -> Tuple[str, bool]:
        if folder not in self._known:
            blocker, exists = self._lookup(folder_of(folder))
            try:
                blocks = exists and not stat.S_ISDIR(os.lstat(self._folders.file(folder)).st_mode)
            except (FileNotFoundError, NotADirectoryError):
                blocks = exists = False
            self._known[folder] = blocker or (folder if blocks and folder not in self._deleted else ""), exists
        return self._known[folder]


def _ancestors(folder: str) -> List[str]:
    ancestors: List[str] = []
    while folder:
        ancestors.append(folder)
        folder = posixpath.dirname(folder)
    return ancestors
