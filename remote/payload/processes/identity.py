"""Processes of this machine, identified by pid and start time, so that a reused pid is never signalled."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import Dict, Iterable, List, Optional, Tuple

from remote.protocol.dataclass import dataclass

HELPERS = (
    b"multiprocessing.spawn",
    b"multiprocessing.forkserver",
    b"multiprocessing.resource_tracker",
    b"torch/_inductor/compile_worker",
    # srun counts as a helper, because a SIGTERM to srun would kill its tasks on the other nodes at once.
    b"srun\0--kill-on-bad-exit",
)


@dataclass(frozen=True)
class Process:
    """One process. `ticks` is its start time in clock ticks since boot; `state` is the letter in /proc/PID/stat."""

    pid: int
    parent: int
    ticks: int
    state: str = "?"

    @property
    def dead(self) -> bool:
        """True if the process has ended and only waits to be reaped."""
        return self.state in ("Z", "X")


def boot_id() -> str:
    """Return an id that changes with every boot: the kernel's boot id, else the boot time, else ""."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(["sysctl", "-n", "kern.boottime"], capture_output=True, check=True, timeout=5)
        return done.stdout.decode("ascii", "replace").split("}")[0].strip()
    return ""


def pid_namespace() -> str:
    """Return the id of this process's pid namespace, or "". Containers of one machine have different ones."""
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def boot_unix() -> float:
    """Return the time of the last boot of the kernel as Unix time, or 0.0 if it is unknown."""
    with contextlib.suppress(OSError, ValueError), open("/proc/stat", encoding="ascii") as file:
        return next((float(line.split()[1]) for line in file if line.startswith("btime ")), 0.0)
    return 0.0


def began_unix() -> float:
    """Return when this machine was booted, or this container was started, as Unix time, or 0.0 if it is unknown.

    It is the start of process 1 of this pid namespace.
    """
    first = read_process(1) if os.path.isdir("/proc/self") else None
    if first is None:
        return boot_unix()
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - first.ticks / os.sysconf("SC_CLK_TCK"))


def read_process(pid: int) -> Optional[Process]:
    """Return the process that has this pid now, or None if there is no such process."""
    if pid <= 0:
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return _parse_stat(pid, file.read())
    except (FileNotFoundError, ProcessLookupError):
        if os.path.isdir("/proc/self"):
            return None
    return {process.pid: process for process in _list_by_ps()}.get(pid)


def _parse_stat(pid: int, line: bytes) -> Process:
    # proc(5): the command name may contain spaces and parentheses, so fields are counted after the last parenthesis.
    fields = line[line.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), int(fields[19]), fields[0].decode("ascii"))


def all_processes() -> List[Process]:
    """Return every visible process."""
    if not os.path.isdir("/proc/self"):
        return _list_by_ps()
    processes = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = read_process(int(name))
            if process is not None:
                processes.append(process)
    return processes


def _list_by_ps() -> List[Process]:
    # macOS has no /proc. The start times that ps prints have a resolution of one second.
    done = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,state=,lstart="],
        capture_output=True,
        check=False,
        timeout=10,
        env={**os.environ, "LC_ALL": "C"},
    )
    processes = []
    for line in done.stdout.decode("ascii", "replace").splitlines():
        pid, parent, state, started = line.split(None, 3)
        ticks = int(time.mktime(time.strptime(started.strip(), "%a %b %d %H:%M:%S %Y")))
        processes.append(Process(int(pid), int(parent), ticks, state[:1]))
    return processes


def is_alive(pid: int, ticks: int, boot: str) -> bool:
    """Return True if the recorded process is alive: same boot, same pid, same start time."""
    if boot != boot_id():
        return False
    process = read_process(pid)
    return process is not None and process.ticks == ticks and not process.dead


def descendants(root: int) -> List[Process]:
    """Return every living descendant of `root`, in any session."""
    return [process for process in _below([root], all_processes()) if not process.dead]


def read_inodes() -> Dict[int, int]:
    """Return the inode of /proc/PID for each visible process.

    A process keeps it, or gets a new one. Another process with a reused pid never has it.
    """
    inodes = {int(name): _read_inode(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    return {pid: inode for pid, inode in inodes.items() if inode}


def _read_inode(pid: int) -> int:
    """Return the inode of /proc/PID, or 0 if there is no such process."""
    try:
        return os.stat(f"/proc/{pid}").st_ino
    except OSError:
        return 0


class Descendants:
    """The living descendants of `root`, for repeated calls: any other process of the machine is read only once.

    A process that once was no descendant never becomes one. `root` must be a subreaper, so that its descendants stay
    its descendants. Another user can arrange that a descendant gets the pid of another process that has just ended.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._others: Dict[int, int] = {}

    def read(self) -> List[Process]:
        """Return every living descendant."""
        if not os.path.isdir("/proc/self"):
            return descendants(self._root)
        inodes = read_inodes()
        self._others = {pid: inode for pid, inode in self._others.items() if inodes.get(pid) == inode}
        processes = [one for one in map(read_process, inodes.keys() - self._others.keys()) if one is not None]
        outside = _below([0, *self._others], [one for one in processes if one.pid != self._root])
        # The parent of a process may have ended in the meantime. Such a process is read again at the next call.
        known = (one for one in outside if not one.parent or _read_inode(one.parent) == inodes.get(one.parent))
        self._others.update((one.pid, inodes[one.pid]) for one in known)
        return [process for process in _below([self._root], processes) if not process.dead]


def _below(roots: Iterable[int], processes: Iterable[Process]) -> List[Process]:
    """Return those of the processes whose chain of parents leads to one of the roots."""
    children: Dict[int, List[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    result: List[Process] = []
    waiting = list(roots)
    while waiting:
        found = children.pop(waiting.pop(), [])
        result += found
        waiting += [process.pid for process in found]
    return result


def read_environment(pid: int) -> Tuple[bytes, ...]:
    """Return the NAME=value pairs of a process's environment, or () if it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return tuple(file.read().split(b"\0"))
    except OSError:
        return ()


def read_command(pid: int) -> bytes:
    """Return a process's command line, with NUL between arguments, or b"" if it cannot be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def is_helper(process: Process, living: Iterable[int]) -> bool:
    """Return True if the process is a helper, such as a data loader's worker, of a parent in `living`.

    A helper has the command line of its parent, or its command line contains a word of HELPERS. A stop does not send
    SIGTERM to helpers, because their parent needs them to save a checkpoint.
    """
    if process.parent not in living:
        return False
    command = read_command(process.pid)
    return bool(command) and (command == read_command(process.parent) or any(word in command for word in HELPERS))


def send_signal(process: Process, number: int) -> bool:
    """Send a signal to exactly this process.

    Return False if the process has ended, or if its pid belongs to another process.
    """
    try:
        if hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):
            return _send_by_descriptor(process, number)
    except OSError:
        # Kernels before 5.3 and some sandboxes have no pidfd, so the start time is checked right before the signal.
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
