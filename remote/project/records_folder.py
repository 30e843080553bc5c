"""The folder `.halfstep` of a project: only its owner can read it. A clone may contain one, so no link is followed."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from remote.errors import BadUsage
from remote.project.open_folders import FOLLOWED, step
from remote.protocol.parts import write_beside
from remote.protocol.shell import shell_command

RECORDS_FOLDER = ".halfstep"
NOT_A_FOLDER = (errno.ENOTDIR, errno.ELOOP)
NOT_A_FILE = (errno.EISDIR, errno.ENXIO)
OTHERS = stat.S_IRWXG | stat.S_IRWXO
WRITABLE = stat.S_IWGRP | stat.S_IWOTH
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def find_link(path: Path) -> Path | None:
    """Return the topmost symbolic link among `.halfstep` and the parts of the path below it, or None.

    Raises BadUsage if a folder is closed to this user.
    """
    records = _records_folder(path)
    if records is None:
        return None
    below = (Path(*path.parts[:end]) for end in range(len(records.parts), len(path.parts) + 1))
    return next((part for part in below if _is_symlink(part)), None)


def create_folder(folder: Path) -> None:
    """Create a folder, and the missing folders above it. `.halfstep` is closed to other users. Raises OSError.

    The records contain copies of files that other users may not read. Older versions and archives create `.halfstep`
    and the folders below it with the mode that the umask gives. So those folders of the path that exist already are
    closed too, if they belong to the user. It is not enough to close `.halfstep`: another user who has opened a folder
    below it could go on using that folder. Raises BadUsage if `.halfstep` or a folder below it is a link.
    """
    if _records_folder(folder) is None:
        folder.mkdir(parents=True, exist_ok=True)
    else:
        os.close(open_folder(folder))


@contextlib.contextmanager
def opened_folder(folder: Path, root: Path | None = None) -> Iterator[int]:
    """Open a folder as `open_folder` does, until the end of the block."""
    fd = open_folder(folder, root)
    try:
        yield fd
    finally:
        os.close(fd)


def open_folder(folder: Path, root: Path | None = None) -> int:
    """Create a folder as `create_folder` does, and return its descriptor.

    No link below `root` is followed, even if another user creates one at that moment. By default, `root` is the folder
    that contains `.halfstep`. For a path outside of `.halfstep`, it is the path itself, whose links are then followed.
    Raises BadUsage for a link and for a folder of another user, and OSError.
    """
    records = _records_folder(folder)
    if root is None:
        root = folder if records is None else records.parent
    refuse_links(folder)
    create_folder(root)
    fd, path = os.open(root, FOLLOWED), root
    try:
        for part in folder.relative_to(root).parts:
            path /= part
            fd = _step(fd, path, 0o777 if records is None else 0o700)
            if records is not None and path.is_relative_to(records):
                _require_own(path, os.fstat(fd), records.parent)
                _close_to_others(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _step(fd: int, path: Path, mode: int) -> int:
    try:
        return step(fd, path.name, mode)
    except OSError as error:
        if error.errno in NOT_A_FOLDER and stat.S_ISLNK(os.lstat(path.name, dir_fd=fd).st_mode):
            raise _is_link(path) from None
        raise OSError(error.errno, error.strerror, str(path)) from None


def refuse_links(path: Path) -> Path:
    """Return the path. Raises BadUsage if `.halfstep` or a part of the path below it is a symbolic link."""
    if (link := find_link(path)) is not None:
        raise _is_link(link)
    return path


def refuse_link(path: Path) -> None:
    """Raise BadUsage if the path itself is a symbolic link, or if its folder is closed to this user."""
    if _is_symlink(path):
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
        with opened_folder(path.parent) as folder:
            descriptor = os.open(path.name, LOCK_FLAGS, 0o600, dir_fd=folder)
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
        with opened_folder(folder) as opened:
            write_beside(ignore.name, b"*\n", 0o600, opened)


def _records_folder(path: Path) -> Path | None:
    """Return the `.halfstep` folder in the path, or None if the path is not in such a folder."""
    parts = path.parts
    return Path(*parts[: len(parts) - parts[::-1].index(RECORDS_FOLDER)]) if RECORDS_FOLDER in parts else None


def require_own_records(records: Path) -> None:
    """Raise BadUsage if the folder `.halfstep` belongs to another user, who could exchange every file in it."""
    _require_own(records, records.lstat(), records.parent)


def trusted_owners(project: Path) -> frozenset[int]:
    """Return the users whose folders in the records of the project are used: this user and root.

    For root, also the owner of the project.
    """
    return frozenset({0, os.geteuid()} | ({project.stat().st_uid} if os.geteuid() == 0 else set()))


def _require_own(path: Path, status: os.stat_result, project: Path) -> None:
    """Raise BadUsage for a file or folder of the records that belongs to another user than this one and root.

    root may also use the records of the user who owns the project, as in a container with this project.
    """
    if status.st_uid not in trusted_owners(project):
        raise BadUsage(
            f"{path} belongs to another user, who could change it",
            where=str(path),
            hint=shell_command("mv {} {}", path, f"{path}-of-{status.st_uid}"),
        )


def require_own_file(file: Path, project: Path) -> None:
    """Raise BadUsage for a file of the project's records that another user created or may write to.

    Its folder must be closed. A missing file raises nothing.
    """
    try:
        status = file.lstat()
    except FileNotFoundError:
        return
    _require_own(file, status, project)
    if status.st_mode & WRITABLE:
        message = f"other users may write to {file}, and may have changed it"
        raise BadUsage(message, where=str(file), hint=shell_command("chmod go-w {}", file))


def close_folders(folder: Path) -> None:
    """Close a folder, and all folders below it, to other users, if they belong to this user. No link is followed."""
    for *_, fd in os.fwalk(folder):
        _close_to_others(fd)


def _close_to_others(folder: int) -> None:
    status = os.fstat(folder)
    if status.st_uid == os.geteuid() and status.st_mode & OTHERS:
        with contextlib.suppress(OSError):  # on a file system without modes, fchmod fails
            os.fchmod(folder, stat.S_IMODE(status.st_mode) & ~OTHERS)


def _is_symlink(path: Path) -> bool:
    try:
        return path.is_symlink()
    except PermissionError:
        message = f"{path.parent} cannot be read, because another user created it"
        raise BadUsage(message, where=str(path.parent), hint=shell_command("ls -ld {}", path.parent)) from None


def _is_link(path: Path) -> BadUsage:
    message = f"{path} is a symbolic link; what halfstep writes to a project must be in the project itself"
    return BadUsage(message, where=str(path), hint=shell_command("rm {}", path))


def _not_regular(path: Path) -> BadUsage:
    message = f"{path} is not a regular file, but a lock file of that name is needed"
    return BadUsage(message, where=str(path), hint=shell_command("ls -ld {}", path))
