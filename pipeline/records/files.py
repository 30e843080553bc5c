"""Files of ours on this machine appear whole or not at all, and one writer at a time holds the lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from remote.errors import BadUsage, Busy, DiskFull
from remote.protocol.parts import write_beside

FULL = {
    errno.ENOSPC: "no space left",
    errno.EDQUOT: "over the disk quota",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
}
NO_FOLDER = (errno.EEXIST, errno.ENOTDIR, errno.ELOOP)


def write_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """`path` holds exactly `data`, also after a power cut; a reader sees the old bytes or the new. Raises DiskFull."""
    with disk_full_as_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_beside(str(path), data, mode)


@dataclass(frozen=True)
class Lock:
    """A lock that is held. Whoever finds it so is told who holds it, from `sign` on."""

    path: Path
    doing: str
    file: io.FileIO

    def sign(self) -> None:
        """The lock's file names this process and what it does."""
        with disk_full_as_error(self.path):
            self.file.truncate(0)
            self.file.write(json.dumps({"pid": os.getpid(), "doing": self.doing}).encode())


@contextlib.contextmanager
def locked(path: Path, doing: str, *, sign: bool = True, wait: bool = False) -> Iterator[Lock]:
    """Held by this process until the end of the block, or its own; raises Busy naming who holds it instead.

    `sign` False leaves the file as it is, for a verb that may find nothing to do and then writes nothing. `wait` True
    waits for the holder instead, for a lock that is held for a moment.
    """
    with disk_full_as_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b", buffering=0)
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            file.seek(0)
            words = f"another pipeline is at work: {_holder(file.read())}"
            raise Busy(words, where=str(path), hint="pipeline status") from None
        lock = Lock(path, doing, file)
        if sign:
            lock.sign()
        yield lock


@contextlib.contextmanager
def disk_full_as_error(path: Path) -> Iterator[None]:
    """Raises DiskFull, naming `path`, where the block could not write; BadUsage where something is in the way."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_FOLDER:
            blocks = _in_the_way(Path(error.filename or path))
            words = f"{blocks} is in the way of a folder of that name"
            raise BadUsage(words, where=str(path), hint=f"ls -l {shlex.quote(str(blocks))}") from error
        if error.errno not in FULL:
            raise
        words = f"cannot write {path}: {FULL[error.errno]}"
        raise DiskFull(words, where=str(path), hint=f"df -h {shlex.quote(str(path.parent))}") from error


def _in_the_way(path: Path) -> Path:
    """The highest on the way to the path that is there and no folder."""
    return next((one for one in (*reversed(path.parents), path) if one.exists() and not one.is_dir()), path)


def _holder(data: bytes) -> str:
    try:
        told = json.loads(data)
        os.kill(int(told["pid"]), 0)
        return f"pid {int(told['pid'])}, {str(told['doing'])[:100]}"
    except (ValueError, KeyError, TypeError, ProcessLookupError):
        return "it has not said yet which"
    except PermissionError:
        return f"pid {int(told['pid'])} of somebody else, {str(told['doing'])[:100]}"
