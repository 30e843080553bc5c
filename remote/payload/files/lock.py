"""Kernel locks on files: they die with their holder, so none is ever stale; leases where the file system has none."""

from __future__ import annotations

import errno
import fcntl
import importlib
import os
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, List, Optional, Type

if TYPE_CHECKING:
    from remote.payload.files.lease import Lease


BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.ETIMEDOUT)
KERNEL_DEADLINE_S = 10.0
# By name: few file systems need them, and every agent takes locks.
LEASES = "remote.payload.files.lease"


class Held(Exception):
    """Somebody else has the lock; the message is what they wrote about themselves."""


class Lock:
    """A lock that is held until `release`, or until this process ends in any way."""

    def __init__(self, descriptor: int, lease: Optional[Lease] = None) -> None:
        self._descriptor = descriptor
        self._lease = lease

    def fileno(self) -> int:
        """The descriptor that holds the kernel's lock: a process that inherits it holds the lock as well."""
        return self._descriptor

    def release(self) -> None:
        if self._lease is not None:
            self._lease.release()
            self._lease = None
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
    """The lock is ours and its file says `words`. Raises Held after `wait_s` of trying."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + wait_s
    lease: Optional[Lease] = None
    try:
        while True:
            got = _try(descriptor, fcntl.LOCK_EX)
            if got is None:
                lease = _leases().take_lease(lease_path(path), words, deadline)
                if lease is None:
                    raise Held(_leases().read_holder(lease_path(path)).words)
                break
            if got:
                break
            if time.monotonic() >= deadline:
                raise Held(os.pread(descriptor, 4096, 0).decode("utf-8", "replace"))
            time.sleep(0.01)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, words.encode("utf-8"), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return Lock(descriptor, lease)


def _leases() -> Any:
    return importlib.import_module(LEASES)


def lease_path(path: str) -> str:
    return f"{path}.lease"


def holder(path: str) -> Optional[str]:
    """What the holder of the lock wrote about itself, or None where nobody holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        got = _try(descriptor, fcntl.LOCK_SH)
        if got is None:
            seen = _leases().read_holder(lease_path(path))
            return str(seen.words) if _leases().lives(lease_path(path), seen) else None
        return None if got else os.pread(descriptor, 4096, 0).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> Optional[bool]:
    """Whether the kernel gave the lock; None where this file system keeps none, or did not say in 10 s."""
    answers: List[int] = []
    # A lock daemon that is gone (NFS) makes even a call that may not wait hang: it hangs in a thread, then.
    asking = threading.Thread(target=_ask, args=(descriptor, kind, answers), daemon=True)
    asking.start()
    asking.join(KERNEL_DEADLINE_S)
    number = answers[0] if answers else errno.ETIMEDOUT
    if number in UNSUPPORTED:
        return None
    if number and number not in BUSY:
        raise OSError(number, os.strerror(number))
    return number == 0


def _ask(descriptor: int, kind: int, answers: List[int]) -> None:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        answers.append(error.errno or errno.EIO)
    else:
        answers.append(0)
