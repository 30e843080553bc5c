"""The folder `.halfstep` of a project. Since a cloned project may contain this folder, no link in it is followed."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

from remote.errors import BadUsage
from remote.protocol.parts import write_beside
from remote.protocol.shell import shell_command

RECORDS_FOLDER = ".halfstep"
NOT_A_FILE = (errno.EISDIR, errno.ENXIO)
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def find_link(path: Path) -> Path | None:
    """Return the topmost symbolic link among `.halfstep` and the parts of the path below it, or None."""
    parts = path.parts
    if RECORDS_FOLDER not in parts:
        return None
    first = len(parts) - parts[::-1].index(RECORDS_FOLDER)
    below = (Path(*parts[:end]) for end in range(first, len(parts) + 1))
    return next((part for part in below if part.is_symlink()), None)


def refuse_links(path: Path) -> Path:
    """Return the path. Raises BadUsage if `.halfstep` or a part of the path below it is a symbolic link."""
    if (link := find_link(path)) is not None:
        raise _is_link(link)
    return path


def refuse_link(path: Path) -> None:
    """Raise BadUsage if the path itself is a symbolic link."""
    if path.is_symlink():
        raise _is_link(path)


def refuse_links_between(root: Path, path: Path) -> None:
    """Raise BadUsage if the path, or a folder between it and `root`, is a symbolic link."""
    for part in (*reversed(path.parents), path):
        if root in part.parents:
            refuse_link(part)


def open_lock(path: Path) -> io.FileIO:
    """Open a lock file. Creates the file if it is missing, and does not truncate it.

    Raises BadUsage if the path is a link or not a regular file, since a cloned project may contain a link that
    redirects what is written to the file.
    """
    refuse_links(path)
    refuse_link(path)
    try:
        descriptor = os.open(path, LOCK_FLAGS, 0o600)
    except OSError as error:
        if error.errno in NOT_A_FILE:
            raise _not_regular(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return io.FileIO(descriptor, "r+")


def exclude_from_git(folder: Path) -> None:
    """Write the `.gitignore` of a project's `.halfstep` folder, unless it exists. The folder itself must exist."""
    ignore = refuse_links(folder) / ".gitignore"
    if not os.path.lexists(ignore):
        write_beside(str(ignore), b"*\n", 0o644)


def _is_link(path: Path) -> BadUsage:
    message = f"{path} is a symbolic link; what halfstep writes to a project must be in the project itself"
    return BadUsage(message, where=str(path), hint=shell_command("rm {}", path))


def _not_regular(path: Path) -> BadUsage:
    message = f"{path} is not a regular file, but a lock file of that name is needed"
    return BadUsage(message, where=str(path), hint=shell_command("ls -ld {}", path))
