"""Files on their way under a name of their own: what a killed writer left is told from what a living one writes."""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from typing import Optional, Tuple

PART = ".hs-part-"
FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
NAME = re.compile(re.escape(PART) + r"([0-9a-f]{8})-(\d+)-(\d+)-\w+")


def make_part(folder: str) -> Tuple[int, str]:
    """An open new file of ours in `folder`, and its path; parts there whose writer was killed are gone."""
    sweep(folder)
    pid = os.getpid()
    # Not tempfile's: every agent would import that, for longer than it takes to write.
    path = os.path.join(folder, f"{PART}{_machine()}-{pid}-{_started(pid) or 0}-{os.urandom(8).hex()}")
    return os.open(path, FLAGS, 0o600), path


def sweep(folder: str) -> None:
    """No part lies in `folder` whose writer is known to be dead; one of another machine or boot is not known to be."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.startswith(PART) and _is_left(name):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))


def _is_left(name: str) -> bool:
    match = NAME.fullmatch(name)
    if match is None or match.group(1) != _machine():
        return False
    pid, started = int(match.group(2)), int(match.group(3))
    if not os.path.isdir("/proc/self"):
        return _is_no_process(pid)
    return _started(pid) != started


def _is_no_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _started(pid: int) -> Optional[int]:
    """When that process began, in clock ticks since boot; None where there is none, or no way to know."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    # proc(5): the command name may hold spaces and parentheses, so fields are counted after the last one.
    fields = line[line.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _machine() -> str:
    """The machine in this boot, and whose pids these are: two containers share the one and not the other."""
    words = ""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        words += file.read()
    with contextlib.suppress(OSError):
        words += os.readlink("/proc/self/ns/pid")
    return f"{zlib.crc32((words or os.uname().nodename).encode()):08x}"
