"""The processes of this machine, from /proc."""

from __future__ import annotations

import os
from pathlib import Path


def alive(pid: int) -> bool:
    """Return True if the process lives and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def command_of(pid: int) -> bytes:
    """Return the command line of a process, or b"" if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def processes_of(folder: Path) -> list[int]:
    """Return every other living process whose environment or command contains the folder's path."""
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes() + command_of(pid)
        except OSError:
            continue
        if os.fsencode(folder) in words and pid != os.getpid() and alive(pid):
            found.append(pid)
    return found
