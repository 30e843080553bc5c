"""Atomic file creation: a file is written under a temporary name in the target's folder, then renamed.

The temporary name identifies the process that writes the file, so that files of killed processes can be removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from typing import BinaryIO, Iterator, Optional, Tuple, Union

PART = ".hs-part-"
FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
WRITER = r"[0-9a-f]{8}-\d+-\d+"
NAME = re.compile(rf"{re.escape(PART)}({WRITER})-\w+")


def write_beside(path: str, data: bytes, mode: int, folder: Optional[int] = None) -> None:
    """Write `data` to `path` atomically, even if the machine loses power. Raises OSError.

    With `folder`, the descriptor of an open folder, `path` is the name of a file in it.
    """
    with replacing(path, folder) as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


@contextlib.contextmanager
def replacing(path: str, folder: Optional[int] = None) -> Iterator[BinaryIO]:
    """Replace `path` atomically with the data that the block writes. If the block fails, nothing changes.

    With `folder`, the descriptor of an open folder, `path` is the name of a file in it. Raises OSError.
    """
    fd, part = make_part((os.path.dirname(path) or ".") if folder is None else folder)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
        os.replace(part, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        raise


def make_part(folder: Union[str, int]) -> Tuple[int, str]:
    """Create a temporary file in `folder`, and remove temporary files of ended processes.

    Return its descriptor, and its path, or its name in the folder if `folder` is a descriptor.
    """
    sweep(folder)
    # tempfile is not used, because its import takes longer than the write itself.
    name, opened = _in_folder(folder, f"{PART}{writer()}-{os.urandom(8).hex()}")
    return os.open(name, FLAGS, 0o600, dir_fd=opened), name


def sweep(folder: Union[str, int]) -> None:
    """Remove temporary files of processes that have ended. Files that another machine or boot wrote are kept."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        match = NAME.fullmatch(name)
        if match is not None and is_dead_writer(match.group(1)):
            path, opened = _in_folder(folder, name)
            with contextlib.suppress(OSError):
                os.unlink(path, dir_fd=opened)


def _in_folder(folder: Union[str, int], name: str) -> Tuple[str, Optional[int]]:
    """Return the path and `dir_fd` of a file in a folder, which is a path or a descriptor."""
    return (name, folder) if isinstance(folder, int) else (os.path.join(folder, name), None)


def writer() -> str:
    """Return a short identifier of this process: machine, pid and start time."""
    pid = os.getpid()
    return f"{_machine()}-{pid}-{_started(pid) or 0}"


def is_dead_writer(name: str) -> bool:
    """Return True if the process that `writer` identifies has ended.

    Return False if the identifier is from another machine or boot.
    """
    machine, pid, started = name.split("-")
    if machine != _machine():
        return False
    if not os.path.isdir("/proc/self"):
        return _is_no_process(int(pid))
    return _started(int(pid)) != int(started)


def _is_no_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _started(pid: int) -> Optional[int]:
    """Return the start time of a process in clock ticks since boot, or None if it cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    # proc(5): the command name may contain spaces and parentheses, so fields are counted after the last parenthesis.
    fields = line[line.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _machine() -> str:
    """Return an identifier of machine, boot and pid namespace. Two containers differ in the pid namespace."""
    identity = ""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        identity += file.read()
    with contextlib.suppress(OSError):
        identity += os.readlink("/proc/self/ns/pid")
    return f"{zlib.crc32((identity or os.uname().nodename).encode()):08x}"
