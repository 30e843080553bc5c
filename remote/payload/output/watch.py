"""Waiting on the host until a file may have changed: inotify where the kernel tells, a short look around where not."""

from __future__ import annotations

import errno
import os
import select
import time
from typing import Any, Dict, Iterable, Optional

try:
    import ctypes

    CAN_CALL = True
except ImportError:  # a Python built without libffi
    CAN_CALL = False

IN_MODIFY, IN_CLOSE_WRITE, IN_MOVED_TO, IN_CREATE, IN_ONLYDIR = 0x2, 0x8, 0x80, 0x100, 0x01000000
MASK = IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ONLYDIR
POLL_S = 0.05
SAFETY_S = 1.0


class Watch:
    """Folders whose files may change. `deaf`: the kernel does not tell of every change (a network file system)."""

    def __init__(self) -> None:
        self._libc: Any = _libc()
        self._fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK) if self._libc else -1
        self._folders: Dict[str, int] = {}
        self.deaf = self._fd < 0

    def follow(self, folders: Iterable[str]) -> None:
        """Exactly these folders are watched; one that is not there yet is tried again next time."""
        wanted = set(folders)
        for folder in [folder for folder in self._folders if folder not in wanted]:
            self._libc.inotify_rm_watch(self._fd, self._folders.pop(folder))
        for folder in sorted(wanted):
            if self.deaf or folder in self._folders:
                continue
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), MASK)
            if number >= 0:
                self._folders[folder] = number
            elif ctypes.get_errno() in (errno.ENOSPC, errno.ENOMEM):
                self.deaf = True

    def wait(self, other: Any, timeout_s: float) -> bool:
        """True at once when the kernel tells of a change, False when `other` is readable or the time is up."""
        patience = min(timeout_s, POLL_S if self.deaf else SAFETY_S)
        sources = [other] if self._fd < 0 else [other, self._fd]
        readable, _, _ = select.select(sources, [], [], max(0.0, patience))
        if self._fd in readable:
            self._drain()
            return True
        return False

    def _drain(self) -> None:
        """Forget what was told; a watch that the kernel dropped (its folder went away) is set again by `follow`."""
        while True:
            try:
                data = os.read(self._fd, 65536)
            except BlockingIOError:
                return
            if b"\x00\x80\x00\x00" in data:
                self._folders.clear()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def pause(seconds: float, since: float) -> None:
    """At least `seconds` have passed since the monotonic time `since`: many small writes become one message."""
    left = seconds - (time.monotonic() - since)
    if left > 0:
        time.sleep(left)


def _libc() -> Optional[Any]:
    if not CAN_CALL:
        return None
    try:
        library = ctypes.CDLL(None, use_errno=True)
        library.inotify_init1, library.inotify_add_watch, library.inotify_rm_watch  # noqa: B018 - looked up once
    except (OSError, AttributeError):
        return None
    return library
