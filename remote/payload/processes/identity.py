"""Processes of this machine, told apart by pid and start time, so that a pid used again is never signalled."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Set, Tuple

HELPERS = (
    b"multiprocessing.spawn",
    b"multiprocessing.forkserver",
    b"multiprocessing.resource_tracker",
    b"torch/_inductor/compile_worker",
)


@dataclass(frozen=True)
class Process:
    """One process; `ticks` is its start in clock ticks since boot, `state` the kernel's letter."""

    pid: int
    parent: int
    ticks: int
    state: str = "?"

    @property
    def dead(self) -> bool:
        """It ended and only waits to be reaped."""
        return self.state in ("Z", "X")


def boot_id() -> str:
    """What differs after a reboot: the kernel's own id, or the boot time where there is none."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(["sysctl", "-n", "kern.boottime"], capture_output=True, check=True, timeout=5)
        return done.stdout.decode("ascii", "replace").split("}")[0].strip()
    return ""


def read_process(pid: int) -> Optional[Process]:
    """The process with that pid now, or None."""
    if pid <= 0:
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return _parse_stat(pid, file.read())
    except (FileNotFoundError, ProcessLookupError):
        if os.path.isdir("/proc/self"):
            return None
    return {process.pid: process for process in _ask_ps()}.get(pid)


def _parse_stat(pid: int, line: bytes) -> Process:
    # proc(5): the command name may hold spaces and parentheses, so fields are counted after the last one.
    fields = line[line.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), int(fields[19]), fields[0].decode("ascii"))


def all_processes() -> List[Process]:
    """Every process that can be seen."""
    if not os.path.isdir("/proc/self"):
        return _ask_ps()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = read_process(int(name))
            if process is not None:
                found.append(process)
    return found


def _ask_ps() -> List[Process]:
    # macOS has no /proc; its start times have a resolution of one second.
    done = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,state=,lstart="],
        capture_output=True,
        check=False,
        timeout=10,
        env={**os.environ, "LC_ALL": "C"},
    )
    found = []
    for line in done.stdout.decode("ascii", "replace").splitlines():
        pid, parent, state, started = line.split(None, 3)
        ticks = int(time.mktime(time.strptime(started.strip(), "%a %b %d %H:%M:%S %Y")))
        found.append(Process(int(pid), int(parent), ticks, state[:1]))
    return found


def is_alive(pid: int, ticks: int, boot: str) -> bool:
    """The very process that was recorded lives: same boot, same pid, same start."""
    if boot != boot_id():
        return False
    process = read_process(pid)
    return process is not None and process.ticks == ticks and not process.dead


def descendants(root: int) -> List[Process]:
    """Every process under `root`, sessions of their own included; dead ones that nobody reaped are left out."""
    children: Dict[int, List[Process]] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process)
    found: List[Process] = []
    seen: Set[int] = {root}
    waiting = [root]
    while waiting:
        for process in children.get(waiting.pop(), []):
            if process.pid not in seen:
                seen.add(process.pid)
                waiting.append(process.pid)
                if not process.dead:
                    found.append(process)
    return found


def marked(*marks: str) -> List[Process]:
    """Living processes whose environment holds each of the `marks` (NAME=value) exactly; only where /proc tells."""
    wanted = {os.fsencode(mark) for mark in marks}
    found = []
    for process in all_processes():
        if process.pid != os.getpid() and not process.dead and wanted.issubset(read_environment(process.pid)):
            found.append(process)
    return found


def read_environment(pid: int) -> Tuple[bytes, ...]:
    """The NAME=value pairs a process was started with; () where they may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return tuple(file.read().split(b"\0"))
    except OSError:
        return ()


def read_command(pid: int) -> bytes:
    """A process's command line, words separated by NUL; empty where there is none."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def is_helper(process: Process, living: Iterable[int]) -> bool:
    """It is a data loader's worker or the like, of a parent that lives: a fork without exec, or one of Python's own.

    Such a worker dies of SIGTERM and takes its parent's checkpoint with it, so a polite stop leaves it to its parent.
    """
    if process.parent not in living:
        return False
    command = read_command(process.pid)
    return bool(command) and (command == read_command(process.parent) or any(word in command for word in HELPERS))


def send_signal(process: Process, number: int) -> bool:
    """The signal reached that very process; False where it is gone or its pid belongs to another one by now."""
    try:
        if hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):
            return _send_by_descriptor(process, number)
    except OSError:
        # Kernels before 5.3 and some sandboxes have no pidfd: the start time is checked right before instead.
        pass
    return _send_by_pid(process, number)


def _send_by_descriptor(process: Process, number: int) -> bool:
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        now = read_process(process.pid)
        if now is None or now.ticks != process.ticks or now.dead:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def _send_by_pid(process: Process, number: int) -> bool:
    now = read_process(process.pid)
    if now is None or now.ticks != process.ticks or now.dead:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, number)
        return True
    return False
