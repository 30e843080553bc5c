"""Open the folders of a path one by one: another user cannot put a link in their place between a check and a write."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

FOLLOWED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FOLDER_FLAGS = FOLLOWED | os.O_NOFOLLOW


@contextlib.contextmanager
def opened_parent(root: int, name: str, *, mode: int | None = None) -> Iterator[tuple[int, str]]:
    """Open the folder of a file and yield its descriptor and the file's name in it. No link below `root` is followed.

    `name` is a relative POSIX path that was validated. With `mode`, missing folders are created. Raises
    NotADirectoryError, on macOS OSError with ELOOP, if a folder is a link.
    """
    *folders, leaf = name.split("/")
    fd = os.dup(root)
    try:
        for folder in folders:
            fd = step(fd, folder, mode)
        yield fd, leaf
    finally:
        os.close(fd)


def step(fd: int, folder: str, mode: int | None) -> int:
    """Open a subfolder and close the folder above it. With `mode`, a missing subfolder is created."""
    try:
        below = os.open(folder, FOLDER_FLAGS, dir_fd=fd)
    except FileNotFoundError:
        if mode is None:
            raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, mode, dir_fd=fd)
        below = os.open(folder, FOLDER_FLAGS, dir_fd=fd)
    os.close(fd)
    return below


@contextlib.contextmanager
def opened_root(root: Path) -> Iterator[int]:
    """Open the folder from which files are opened. Links in its path are followed."""
    fd = os.open(root, FOLLOWED)
    try:
        yield fd
    finally:
        os.close(fd)
