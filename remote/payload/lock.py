"""Kernel locks on files: they die with their holder, so there is never a stale one to clear."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from types import TracebackType
from typing import Optional, Type

BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


class Held(Exception):
    """Somebody else has the lock; the message is what they wrote about themselves."""


class NoLocks(Exception):
    """This file system keeps no locks (an NFS mount without a lock daemon)."""


class Lock:
    """A lock that is held until `release`, or until this process ends in any way."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.release()


def take_lock(path: str, words: str, *, wait_s: float = 0.0) -> Lock:
    """The lock is ours and its file says `words`. Raises Held after `wait_s` of trying, NoLocks."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + wait_s
    try:
        while not _try(descriptor, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                raise Held(os.pread(descriptor, 4096, 0).decode("utf-8", "replace"))
            time.sleep(0.01)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, words.encode("utf-8"), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return Lock(descriptor)


def holder(path: str) -> Optional[str]:
    """What the holder of the lock wrote about itself, or None where nobody holds it. Raises NoLocks."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if _try(descriptor, fcntl.LOCK_SH):
            return None
        return os.pread(descriptor, 4096, 0).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in BUSY:
            return False
        if error.errno in UNSUPPORTED:
            raise NoLocks(str(error)) from None
        raise
    return True
