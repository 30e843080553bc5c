"""Atomic writes and locks of local files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from remote.errors import BadUsage, Busy, DiskFull
from remote.project.digests import parse_record
from remote.project.records_folder import create_folder, open_lock, opened_folder, refuse_links
from remote.protocol.dataclass import dataclass
from remote.protocol.parts import write_beside
from remote.protocol.regular import read_regular
from remote.protocol.shell import shell_command

FULL = {
    errno.ENOSPC: "no space left",
    errno.EDQUOT: "over the disk quota",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
}
MAX_HOLDER = 4096
SIGNATURE_TRIES = 30
SIGNATURE_WAIT_S = 0.1
UNKNOWN_HOLDER = "its pid is unknown"
WHEN_BUSY = "run the command again when that process has ended"
RUN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(@[A-Za-z0-9._-]+)?")
"""Matches the name of a run or the key of a project. Both name folders, and are unquoted words in printed commands."""
NO_FOLDER = (errno.EEXIST, errno.ENOTDIR, errno.ELOOP)


def write_atomic(path: Path, data: bytes, mode: int = 0o600, *, root: Path | None = None) -> None:
    """Write `data` to `path` atomically and durably. By default, only the user can read the file.

    With `root`, no link in the folders between `root` and the file is followed. Raises DiskFull, and BadUsage if such a
    folder, `.halfstep` or a folder below it is a symbolic link, or if the path is a folder.
    """
    with disk_full_as_error(path), opened_folder(path.parent, root) as folder:
        write_beside(path.name, data, mode, folder)


@dataclass(frozen=True)
class Lock:
    """A held lock. After `sign`, other processes can name the holder in the error Busy, and attach to its run."""

    path: Path
    doing: str
    file: io.FileIO

    def sign(self, run: str = "") -> None:
        """Write this process, its activity and the run whose job it follows into the lock file."""
        signature = {"pid": os.getpid(), "doing": self.doing, **({"run": run} if run else {})}
        with disk_full_as_error(self.path):
            self.file.seek(0)
            self.file.truncate(0)
            self.file.write(json.dumps(signature).encode())


@contextlib.contextmanager
def locked(path: Path, doing: str, *, sign: bool = True, wait: bool = False) -> Iterator[Lock]:
    """Hold the lock until the end of the block or of the process.

    Raises Busy, which names the holder. With `sign` False, the caller writes the lock file later with `Lock.sign`, once
    it has work to do. With `wait` True, wait for the holder instead of raising Busy; this is for locks that are held
    briefly.
    """
    refuse_links(path.parent)
    with disk_full_as_error(path):
        create_folder(path.parent)
        file = open_lock(path)
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            signature = _read_signature(file)
            message = f"another pipeline process is running: {_holder(signature)}"
            raise Busy(message, where=str(path), hint=_hint(signature)) from None
        lock = Lock(path, doing, file)
        if sign:
            lock.sign()
        yield lock


def read_holder(path: Path) -> str:
    """Return the living process that signed the lock file last, as 'pid 7, run tiny on titan', or ""."""
    try:
        holder = _holder(read_regular(path, MAX_HOLDER))
    except OSError:
        return ""
    return "" if holder == UNKNOWN_HOLDER else holder


def _read_signature(file: io.FileIO) -> bytes:
    """Return the content of a lock file. If its last holder has ended, wait a moment for the new holder to sign it."""
    for _ in range(SIGNATURE_TRIES):
        file.seek(0)
        signature = file.read(MAX_HOLDER)
        if not _is_of_the_past(signature):
            break
        time.sleep(SIGNATURE_WAIT_S)
    return signature


def _is_of_the_past(signature: bytes) -> bool:
    """Return True if no process has written its pid, or if that process has ended."""
    try:
        os.kill(int(parse_record(signature)["pid"]), 0)
    except ProcessLookupError:
        return True
    except (ValueError, KeyError, TypeError, OverflowError, PermissionError):
        return not signature
    return False


@contextlib.contextmanager
def disk_full_as_error(path: Path) -> Iterator[None]:
    """Raise DiskFull if the disk is full, and BadUsage if a file is in place of a folder, or the reverse."""
    try:
        yield
    except IsADirectoryError as error:
        message = f"{path} is a folder, but a file of that name is needed"
        raise BadUsage(message, where=str(path), hint=shell_command("ls -ld {}", path)) from error
    except OSError as error:
        if error.errno in NO_FOLDER:
            blocks = _blocking(Path(error.filename or path))
            message = f"{blocks} is not a folder, but a folder of that name is needed"
            raise BadUsage(message, where=str(path), hint=shell_command("ls -l {}", blocks)) from error
        if error.errno not in FULL:
            raise
        message = f"cannot write {path}: {FULL[error.errno]}"
        raise DiskFull(message, where=str(path), hint=shell_command("df -h {}", path.parent)) from error


def _blocking(path: Path) -> Path:
    """Return the topmost part of the path that exists and is not a folder."""
    return next((one for one in (*reversed(path.parents), path) if one.exists() and not one.is_dir()), path)


def _hint(data: bytes) -> str:
    """Return the command that follows the holder's run, or WHEN_BUSY if the run is unknown."""
    try:
        holder = parse_record(data)
        os.kill(int(holder["pid"]), 0)
        run = str(holder["run"])
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        return WHEN_BUSY
    return shell_command("pipeline attach {}", run) if RUN_NAME.fullmatch(run) else WHEN_BUSY


def _holder(data: bytes) -> str:
    try:
        holder = parse_record(data)
        os.kill(int(holder["pid"]), 0)
        return f"pid {int(holder['pid'])}, {str(holder['doing'])[:100]}"
    except (ValueError, KeyError, TypeError, OverflowError, ProcessLookupError):
        return UNKNOWN_HOLDER
    except PermissionError:
        return f"pid {int(holder['pid'])} of another user, {str(holder['doing'])[:100]}"
