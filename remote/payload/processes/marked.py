"""The processes of this user that have a job's variables, also those that a service such as Slurm has started."""

from __future__ import annotations

import os
import time
from math import inf
from typing import Callable, Dict, List, Set, Tuple

from remote.payload.processes.identity import Process, all_processes, read_environment, read_inodes, read_process

SETTLED_S = 10.0
"""A service starts a process under its own user, and sets user and variables in this time."""


def marked_processes(*marks: str) -> List[Process]:
    """Return the living processes of this user whose environment has each of `marks` (NAME=value), or [] without /proc.

    Root can read the environment of every process, and another user can copy the marks from a command line.
    """
    return [process for process in all_processes() if not process.dead and _has_marks(process.pid, _encoded(marks))]


class Marked:
    """The marked processes, for repeated calls: any other process is read only in the first SETTLED_S seconds.

    A process that was marked once is read each time.
    """

    def __init__(self, *marks: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._marks = _encoded(marks)
        self._clock = clock
        self._seen: Dict[Tuple[int, int], float] = {}

    def read(self) -> List[Process]:
        """Return the living marked processes, or [] without /proc."""
        if not os.path.isdir("/proc/self"):
            return []
        now, before, marked = self._clock(), self._seen, []
        self._seen = {}
        for pid, inode in read_inodes().items():
            first = before.get((pid, inode), now)
            process = read_process(pid) if now - first <= SETTLED_S and _has_marks(pid, self._marks) else None
            if process is not None and not process.dead:
                first = inf  # read each time, also after a pause of this process
                marked.append(process)
            self._seen[pid, inode] = first
        return marked


def united(first: List[Process], second: List[Process]) -> List[Process]:
    """Return the processes of both lists, each once."""
    return list({process.pid: process for process in (*first, *second)}.values())


def _encoded(marks: Tuple[str, ...]) -> Set[bytes]:
    return {os.fsencode(mark) for mark in marks}


def _has_marks(pid: int, marks: Set[bytes]) -> bool:
    """Return True for a process of this user with the marks. The owner of /proc/PID is the effective user only."""
    marked = pid != os.getpid() and _is_own(pid) and marks.issubset(read_environment(pid))
    return marked and _read_users(pid) == {str(os.getuid())}


def _is_own(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.getuid()
    except OSError:
        return False


def _read_users(pid: int) -> Set[str]:
    """Return the real, effective, saved and file system user id of a process: they differ in a setuid program."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return next((set(line.split()[1:]) for line in file if line.startswith("Uid:")), set())
    except OSError:
        return set()
