"""Create private folders, and write files atomically: to a temporary file, which is synced and then renamed."""

from __future__ import annotations

import os

from remote.protocol.parts import PART as PART
from remote.protocol.parts import write_beside


def write_atomic(path: str, data: bytes, mode: int = 0o644) -> None:
    """Write `data` to `path` atomically and durably. Creates the parent folders."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    write_beside(path, data, mode)
    sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Sync `folder`, so that a rename in it survives a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_private_folder(folder: str) -> None:
    """Create the folder and its missing parents with mode 0700, regardless of the umask."""
    before = os.umask(0o077)
    try:
        os.makedirs(folder, exist_ok=True)
    finally:
        os.umask(before)
