"""File locks with flock(2), which the kernel releases when their holder dies. Uses leases if flock is not supported."""

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
# Imported by name on first use: every agent takes locks, but few file systems need leases.
LEASES = "remote.payload.files.lease"


class Held(Exception):
    """Another process holds the lock. The message is the content of the lock file."""


class Lock:
    """A lock that is held until `release`, or until this process ends."""

    def __init__(self, descriptor: int, lease: Optional[Lease] = None) -> None:
        self._descriptor = descriptor
        self._lease = lease

    def fileno(self) -> int:
        """Return the lock's file descriptor. A process that inherits the descriptor holds the lock too."""
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


def take_lock(path: str, description: str, *, wait_s: float = 0.0) -> Lock:
    """Acquire the lock and write `description` to its file.

    Raises Held if another process holds it for over `wait_s` s.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + wait_s
    lease: Optional[Lease] = None
    try:
        while True:
            got = _try(descriptor, fcntl.LOCK_EX)
            if got is None:
                lease = _leases().take_lease(lease_path(path), description, deadline)
                if lease is None:
                    raise Held(_leases().read_holder(lease_path(path)).words)
                break
            if got:
                break
            if time.monotonic() >= deadline:
                raise Held(os.pread(descriptor, 4096, 0).decode("utf-8", "replace"))
            time.sleep(0.01)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, description.encode("utf-8"), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return Lock(descriptor, lease)


def _leases() -> Any:
    return importlib.import_module(LEASES)


def lease_path(path: str) -> str:
    return f"{path}.lease"


def holder(path: str) -> Optional[str]:
    """Return the text that the holder of the lock wrote to its file, or None if nobody holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        got = _try(descriptor, fcntl.LOCK_SH)
        if got is None:
            seen = _leases().read_holder(lease_path(path))
            return str(seen.words) if _leases().is_held(lease_path(path), seen) else None
        return None if got else os.pread(descriptor, 4096, 0).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> Optional[bool]:
    """Try to acquire the lock without waiting.

    Return True if the lock was acquired, False if another process holds it. Return None if the file system has no locks
    or does not respond within 10 s.
    """
    answers: List[int] = []
    # Without a lock daemon, NFS blocks even a non-blocking flock, so the call is made in a thread.
    attempt = threading.Thread(target=_flock, args=(descriptor, kind, answers), daemon=True)
    attempt.start()
    attempt.join(KERNEL_DEADLINE_S)
    number = answers[0] if answers else errno.ETIMEDOUT
    if number in UNSUPPORTED:
        return None
    if number and number not in BUSY:
        raise OSError(number, os.strerror(number))
    return number == 0


def _flock(descriptor: int, kind: int, answers: List[int]) -> None:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        answers.append(error.errno or errno.EIO)
    else:
        answers.append(0)
