"""A local folder for data from a host. A file name cannot lead to a path outside of the folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from remote.errors import Busy, DiskFull, PullRefused
from remote.project.open_folders import opened_parent
from remote.project.records_folder import open_folder
from remote.protocol.exits import ExitCode
from remote.protocol.shell import shell_command

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
LOCK = ".lock"
LOCK_PATIENCE_S = 60.0
LOCK_AGAIN_S = 0.02
FILE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Folder:
    """An open folder. Names are relative POSIX paths that were validated. Links in the folder are never followed."""

    def __init__(self, path: Path) -> None:
        with local_errors(path):
            self._fd = open_folder(path)
        self.path = path
        self._changed: set[str] = set()

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    @contextlib.contextmanager
    def locked(self, name: str = LOCK) -> Iterator[None]:
        """Hold the folder's lock during the block. Raises Busy if another process holds it for a minute."""
        with local_errors(self.path / name):
            fd = os.open(name, FILE_FLAGS, 0o600, dir_fd=self._fd)
        try:
            _lock(fd, self.path)
            yield
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[int]:
        """Open a file for writing. A missing file is created with mode 0600, with its folders. Raises PullRefused."""
        with local_errors(self.path / name), self._parent(name, make=True) as (parent, leaf):
            fd = os.open(leaf, FILE_FLAGS, 0o600, dir_fd=parent)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise PullRefused(f"{self.path / name} is not a regular file", where=str(self.path / name))
                yield fd
            finally:
                os.close(fd)

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[int | None]:
        """Open a file for reading. Yields None if it does not exist. Raises PullRefused."""
        fd: int | None = None
        with (
            local_errors(self.path / name),
            contextlib.suppress(FileNotFoundError),
            self._parent(name) as (parent, leaf),
        ):
            fd = os.open(leaf, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        try:
            if fd is not None and not stat.S_ISREG(os.fstat(fd).st_mode):
                raise PullRefused(f"{self.path / name} is not a regular file", where=str(self.path / name))
            yield fd
        finally:
            if fd is not None:
                os.close(fd)

    def append(self, fd: int, name: str, offset: int, data: bytes) -> None:
        """Write `data` at `offset`, the end of the file. If the disk is full, the file is truncated to `offset`."""
        view = memoryview(data)
        self._changed.add(name)
        with local_errors(self.path / name):
            try:
                while view:
                    written = os.pwrite(fd, view, offset + len(data) - len(view))
                    view = view[written:]
            except OSError:
                os.ftruncate(fd, offset)
                raise

    def sync(self) -> None:
        """Flush all appended data to disk."""
        for name in sorted(self._changed):
            with self.opened(name) as fd, local_errors(self.path / name):
                os.fsync(fd)
            with self._parent(name) as (parent, _):
                os.fsync(parent)
        self._changed.clear()

    @contextlib.contextmanager
    def _parent(self, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        try:
            with opened_parent(self._fd, name, mode=0o700 if make else None) as found:
                yield found
        except NotADirectoryError:
            raise PullRefused(
                f"a folder of {name} is a file or a link on this machine", where=str(self.path / name)
            ) from None


def _lock(fd: int, path: Path) -> None:
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Busy(f"another pull has locked {path} for a minute", where=str(path)) from None
            time.sleep(LOCK_AGAIN_S)


@contextlib.contextmanager
def local_errors(path: Path) -> Iterator[None]:
    """Convert a local OSError of the block to DiskFull or PullRefused, with the path."""
    try:
        yield
    except OSError as error:
        message = f"{path}: {error.strerror or error}"
        if error.errno in DISK_FULL:
            raise DiskFull(message, where=str(path), hint=shell_command("df -h {}", path.parent)) from None
        raise PullRefused(message, where=str(path), exit_code=ExitCode.PULL) from None
