"""Large files in the copies of a project that runs work in: runs that have ended share the bytes of one copy.

A hard link to the synced tree would let a job that writes into its file change the tree, and a hard link between two
living runs would let one change the other's file. So a run gets a link to a kept copy of the tree's file, and only
while no other living run has one; a file that a job was seen to write into is copied for every run from then on.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from typing import Callable, Set

from remote.payload.files.atomic import PART, write_whole
from remote.protocol.tree import LARGE_BYTES

USER = ".run"
WRITTEN = ".written"


class SharedFiles:
    """The kept copies of one project's large files, for one run; the caller holds the project's lock.

    A kept copy is named by the look (inode, size, time, mode) of the tree's file it was made from. `has_ended` says of
    another run whether no process of it can write any more.
    """

    def __init__(self, folder: str, run: str, has_ended: Callable[[str], bool]) -> None:
        self.folder, self.run, self._has_ended = folder, run, has_ended
        self._current: Set[str] = set()

    def link(self, source: str, copy: str) -> bool:
        """Whether `copy` is now a link to the kept copy of a large file; False where it has to be copied instead."""
        try:
            status = os.lstat(source)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not stat.S_ISREG(status.st_mode):
            return False
        name = f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}-{stat.S_IMODE(status.st_mode):o}"
        self._current.add(name)
        kept = os.path.join(self.folder, name)
        if os.path.lexists(kept + WRITTEN) or not self._is_free(kept):
            return False
        if not os.path.lexists(kept):
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            _copy_whole(source, kept, status)
        if not _is_intact(kept, status):
            write_whole(kept + WRITTEN, b"")
            os.unlink(kept)
            return False
        write_whole(kept + USER, self.run.encode())
        try:
            os.link(kept, copy, follow_symlinks=False)
        except OSError:
            return False
        return True

    def sweep(self) -> None:
        """Kept copies of files that the tree does not have any more are gone; runs keep what they have."""
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.folder):
                if name.removesuffix(USER).removesuffix(WRITTEN) not in self._current:
                    os.unlink(os.path.join(self.folder, name))

    def _is_free(self, kept: str) -> bool:
        try:
            with open(kept + USER, "rb") as file:
                user = file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return True
        return user == self.run or self._has_ended(user)


def make_private(code: str) -> None:
    """No large file under `code` shares its bytes with another run: a job is about to work there again."""
    for folder, _, names in os.walk(code):
        for name in names:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 and status.st_size >= LARGE_BYTES:
                _copy_whole(path, path, status)


def _copy_whole(source: str, target: str, status: os.stat_result) -> None:
    """`target` is a file of its own with the bytes, mode and time of `source`; it appears by a rename."""
    folder, name = os.path.split(target)
    part = os.path.join(folder, PART + name)
    try:
        shutil.copyfile(source, part)
        os.chmod(part, stat.S_IMODE(status.st_mode))
        os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.rename(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def _is_intact(kept: str, status: os.stat_result) -> bool:
    now = os.lstat(kept)
    return stat.S_ISREG(now.st_mode) and (now.st_size, now.st_mtime_ns) == (status.st_size, status.st_mtime_ns)
