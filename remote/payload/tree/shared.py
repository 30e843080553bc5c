"""Hard links, so that runs share one copy of each large file.

If a run had hard links to files of the synced tree, a job that writes to such a file would change the tree. If two
active runs shared a file, one run would change the file of the other. A run therefore gets a hard link to a shared copy
of the tree's file, but only while no other active run has a link to this copy. After a job has written to the shared
copy, every later run gets its own copy of that file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from typing import Callable, Set

from remote.payload.files.atomic import PART, write_atomic
from remote.protocol.tree import LARGE_BYTES

USER = ".run"
WRITTEN = ".written"


class SharedFiles:
    """The shared copies of one project's large files, for one run. The caller holds the project's lock.

    The name of a copy contains the inode, size, mtime and mode of the file in the tree. `has_ended` returns True for a
    run whose processes cannot write any more.
    """

    def __init__(self, folder: str, run: str, has_ended: Callable[[str], bool]) -> None:
        self.folder, self.run, self._has_ended = folder, run, has_ended
        self._current: Set[str] = set()

    def link(self, source: str, copy: str) -> bool:
        """Link `copy` to the shared copy of a large file. Return False if the file must be copied instead."""
        try:
            status = os.lstat(source)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not stat.S_ISREG(status.st_mode):
            return False
        name = f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}-{stat.S_IMODE(status.st_mode):o}"
        self._current.add(name)
        shared = os.path.join(self.folder, name)
        if os.path.lexists(shared + WRITTEN) or not self._is_free(shared):
            return False
        if not os.path.lexists(shared):
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            _copy_file(source, shared, status)
        if not _is_intact(shared, status):
            write_atomic(shared + WRITTEN, b"")
            os.unlink(shared)
            return False
        write_atomic(shared + USER, self.run.encode())
        try:
            os.link(shared, copy, follow_symlinks=False)
        except OSError:
            return False
        return True

    def sweep(self) -> None:
        """Remove the shared copies of files that are no longer in the tree.

        The hard links in runs keep the contents.
        """
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.folder):
                if name.removesuffix(USER).removesuffix(WRITTEN) not in self._current:
                    os.unlink(os.path.join(self.folder, name))

    def _is_free(self, shared: str) -> bool:
        try:
            with open(shared + USER, "rb") as file:
                user = file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return True
        return user == self.run or self._has_ended(user)


def unshare_large_files(code: str) -> None:
    """Replace each hard link to a large file under `code` with a copy, so that a new job may write to the file."""
    for folder, _, names in os.walk(code):
        for name in names:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 and status.st_size >= LARGE_BYTES:
                _copy_file(path, path, status)


def _copy_file(source: str, target: str, status: os.stat_result) -> None:
    """Copy the bytes, mode and mtime of `source` to a new file, and rename it to `target`."""
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


def _is_intact(shared: str, status: os.stat_result) -> bool:
    now = os.lstat(shared)
    return stat.S_ISREG(now.st_mode) and (now.st_size, now.st_mtime_ns) == (status.st_size, status.st_mtime_ns)
