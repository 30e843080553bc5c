"""Wait for changes of files: with inotify, or by polling if inotify misses changes."""

from __future__ import annotations

import errno
import os
import select
import time
from typing import Any, Dict, Iterable, Optional

try:
    import ctypes

    CAN_CALL = True
except ImportError:  # A Python that was built without libffi has no ctypes.
    CAN_CALL = False

IN_MODIFY, IN_CLOSE_WRITE, IN_MOVED_TO, IN_CREATE, IN_ONLYDIR = 0x2, 0x8, 0x80, 0x100, 0x01000000
MASK = IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ONLYDIR
POLL_S = 0.05
SAFETY_S = 1.0
MAX_MISSED = 3


class FileWatcher:
    """Watches folders. `polling` is True if inotify is unavailable or misses changes, as on a network file system."""

    def __init__(self) -> None:
        self._libc: Any = _libc()
        self._fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK) if self._libc else -1
        self._folders: Dict[str, int] = {}
        self.polling = self._fd < 0
        self.notified = True
        self._missed = 0

    def follow(self, folders: Iterable[str]) -> None:
        """Watch exactly these folders. A missing folder is tried again at the next call."""
        wanted = set(folders)
        for folder in [folder for folder in self._folders if folder not in wanted]:
            self._libc.inotify_rm_watch(self._fd, self._folders.pop(folder))
        for folder in sorted(wanted):
            if self.polling or folder in self._folders:
                continue
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), MASK)
            if number >= 0:
                self._folders[folder] = number
            elif ctypes.get_errno() in (errno.ENOSPC, errno.ENOMEM):
                self.polling = True

    def wait(self, other: Any, timeout_s: float) -> bool:
        """Wait for a change. Return True if a file has changed, False if `other` is readable or the time is up."""
        wait_s = min(timeout_s, POLL_S if self.polling else SAFETY_S)
        sources = [other] if self._fd < 0 else [other, self._fd]
        readable, _, _ = select.select(sources, [], [], max(0.0, wait_s))
        if self._fd in readable:
            self._drain()
            return True
        return False

    def note_change(self, *, notified: bool) -> None:
        """Record a change. `notified` is False if inotify did not report it.

        After three such changes, switch to polling.
        """
        self._missed += not notified
        self.polling = self.polling or self._missed >= MAX_MISSED

    def _drain(self) -> None:
        """Discard the events. IN_IGNORED means that a watched folder was removed.

        The next `follow` then creates all watches again.
        """
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
    """Sleep until `seconds` after the monotonic time `since`, so that many small writes become one message."""
    left = seconds - (time.monotonic() - since)
    if left > 0:
        time.sleep(left)


def _libc() -> Optional[Any]:
    if not CAN_CALL:
        return None
    try:
        library = ctypes.CDLL(None, use_errno=True)
        library.inotify_init1, library.inotify_add_watch, library.inotify_rm_watch  # noqa: B018 - only the lookup matters
    except (OSError, AttributeError):
        return None
    return library
