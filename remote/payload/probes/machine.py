"""The machine: identity, memory, disk, ports. Every probe takes microseconds."""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
import socket
import subprocess
import time
from typing import Iterable, List, Optional, Tuple

from remote.payload.processes.identity import boot_id
from remote.protocol.machine import Disk, Machine

CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def read_machine() -> Machine:
    """Probe the machine."""
    return Machine(
        hostname=socket.gethostname(),
        machine_id=_first_line("/etc/machine-id") or _first_line("/var/lib/dbus/machine-id"),
        boot_id=boot_id(),
        system=f"{platform.system()} {platform.release()}",
        arch=platform.machine(),
        user=user_name(),
        home=os.path.expanduser("~"),
        memory_bytes=_memory_bytes(),
        shm_bytes=_size("/dev/shm"),
        clock_unix=time.time(),
        container=in_container(),
    )


def in_container() -> bool:
    """Return True if this process runs in a container."""
    if any(os.path.exists(mark) for mark in CONTAINER_MARKS) or "container" in os.environ:
        return True
    first = _first_line("/proc/1/cgroup")
    return any(word in first for word in ("docker", "kubepods", "libpod", "lxc"))


def _memory_bytes() -> int:
    """The memory of the machine, lowered to the control group's limit; 0 if unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            total = next((int(line.split()[1]) * 1024 for line in file if line.startswith("MemTotal:")), 0)
    except OSError:
        return _memory_by_sysctl()
    limits = [int(limit) for limit in map(_first_line, CGROUP_LIMITS) if limit.isdigit() and int(limit) > 0]
    return min([total, *limits])


def _memory_by_sysctl() -> int:
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(["sysctl", "-n", "hw.memsize"], capture_output=True, check=True, timeout=5)
        return int(done.stdout)
    return 0


def user_name() -> str:
    """The name of the current user, or its uid."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def _size(path: str) -> int:
    try:
        status = os.statvfs(path)
    except OSError:
        return 0
    return status.f_blocks * status.f_frsize


def read_disk(path: str) -> Disk:
    """The file system that would hold `path`. Writes nothing, so it misses a quota (see `write_disk`)."""
    place = path
    while not os.path.exists(place):
        place = os.path.dirname(place)
    status = os.statvfs(place)
    mount, kind = _mount(place)
    error = ""
    if status.f_flag & os.ST_RDONLY:
        error = "the file system is read-only"
    elif not os.access(place, os.W_OK | os.X_OK):
        error = f"{user_name()} cannot write to {place}"
    free = status.f_bavail * status.f_frsize
    inodes = status.f_favail if status.f_files else -1
    return Disk(path, mount, free, status.f_blocks * status.f_frsize, inodes, kind, error)


def _mount(path: str) -> Tuple[str, str]:
    real = os.path.realpath(path)
    best = ("/", "")
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                _, where, kind, *_ = line.split(" ")
                where = where.encode("utf-8", "surrogateescape").decode("unicode_escape")
                inside = real == where or real.startswith(where.rstrip("/") + "/")
                if inside and len(where) >= len(best[0]):
                    best = (where, kind)
    except OSError:
        pass
    return best


def free_ports(wanted: Iterable[int]) -> List[int]:
    """The TCP ports among `wanted` that are free."""
    free = []
    for port in wanted:
        with socket.socket() as probe:
            # A port in TIME_WAIT is free for torch's rendezvous, which reuses addresses too.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
                probe.listen(1)
            except OSError:
                continue
            free.append(port)
    return free


def lingers(user: str) -> Optional[bool]:
    """Return True if systemd lingering is on, so that the user's units survive a logout; None without systemd."""
    if not os.path.isdir("/run/systemd/system"):
        return None
    return os.path.exists(f"/var/lib/systemd/linger/{user}")
