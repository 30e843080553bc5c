"""Probe the machine's identity and its disk. Every probe takes microseconds."""

from __future__ import annotations

import getpass
import os
import time
from typing import Optional, Tuple

from remote.protocol.machine import Disk, Machine, OwnContainer

VOLUMES = ("/workspace",)
"""The mount points of the disks that RunPod and Vast.ai keep when a container is deleted."""
CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


def read_machine() -> Machine:
    system = os.uname()
    return Machine(
        hostname=system.nodename,
        machine_id=_first_line("/etc/machine-id") or _first_line("/var/lib/dbus/machine-id"),
        system=f"{system.sysname} {system.release}",
        shm_bytes=_size("/dev/shm"),
        clock_unix=time.time(),
        container=in_container(),
        own_container=own_container(),
    )


def own_container() -> Optional[OwnContainer]:
    """Return the container of this process if remote/link/container.sh created it, otherwise None."""
    values = os.environ.get("HALFSTEP_CONTAINER", "").split()
    return OwnContainer(*values) if len(values) in (3, 4) else None


def machine_name() -> str:
    """Return the name of halfstep's own container, which has the network name of its host, else that network name."""
    own = own_container()
    return own.name if own is not None else os.uname().nodename


def in_container() -> bool:
    """Return True if this process runs in a container."""
    if any(os.path.exists(mark) for mark in CONTAINER_MARKS) or "container" in os.environ:
        return True
    first = _first_line("/proc/1/cgroup")
    return any(word in first for word in ("docker", "kubepods", "libpod", "lxc"))


def user_name() -> str:
    """Return the name of the current user, or the uid if the user has no name."""
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
    """Return the file system that would contain `path`.

    A user's quota is not detected, because detecting it needs a write.
    """
    parent = path
    while not os.path.exists(parent):
        parent = os.path.dirname(parent)
    status = os.statvfs(parent)
    error = ""
    if status.f_flag & os.ST_RDONLY:
        error = "the file system is read-only"
    elif not os.access(parent, os.W_OK | os.X_OK):
        error = f"{user_name()} cannot write to {parent}"
    free = max(0, status.f_bavail) * status.f_frsize
    inodes = status.f_favail if status.f_files else -1
    mount, kind = _mount(parent)
    volumes = (volume for volume in VOLUMES if os.path.ismount(volume) and os.access(volume, os.W_OK | os.X_OK))
    volume = next(volumes, "") if kind == "overlay" else ""
    return Disk(path, mount, free, status.f_blocks * status.f_frsize, inodes, error, volume)


def _mount(path: str) -> Tuple[str, str]:
    """Return the mount point of the path, and the type of its file system."""
    real = os.path.realpath(path)
    best, kind = "/", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                _, where, this, *_ = line.split(" ")
                where = where.encode("utf-8", "surrogateescape").decode("unicode_escape")
                inside = real == where or real.startswith(where.rstrip("/") + "/")
                if inside and len(where) >= len(best):
                    best, kind = where, this
    except OSError:
        pass
    return best, kind


def lingers(user: str) -> Optional[bool]:
    """Return True if systemd keeps the user's units running after a logout (lingering). Return None without systemd."""
    if not os.path.isdir("/run/systemd/system"):
        return None
    return os.path.exists(f"/var/lib/systemd/linger/{user}")
