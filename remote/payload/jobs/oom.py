"""Read the kernel's count of out-of-memory kills, to compare it before and after a job."""

from __future__ import annotations

from typing import Dict, Optional

V1_COUNTER = "/sys/fs/cgroup/memory{path}/memory.oom_control"
V2_COUNTER = "/sys/fs/cgroup{path}/memory.events"
HYBRID_COUNTER = "/sys/fs/cgroup/unified{path}/memory.events"
WHOLE_MACHINE = "/proc/vmstat"


def count_oom_kills() -> Optional[int]:
    """Return the number of out-of-memory kills in this process's control group.

    If the group has no counter, return the number on the whole machine. Return None on kernels before 4.13. They have
    no counter `oom_kill` in cgroup v1, cgroup v2 or /proc/vmstat.
    """
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            paths = parse_cgroup(file.read())
    except OSError:
        return None
    places = [(V1_COUNTER, "memory"), (V2_COUNTER, ""), (HYBRID_COUNTER, "")]
    for template, controller in places:
        if controller in paths:
            path = paths[controller]
            count = _read_counter(template.format(path="" if path == "/" else path))
            if count is not None:
                return count
    return _read_counter(WHOLE_MACHINE)


def parse_cgroup(text: str) -> Dict[str, str]:
    """Map each controller in /proc/self/cgroup to its path. The controller of cgroup v2 is the empty string."""
    paths: Dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _read_counter(path: str) -> Optional[int]:
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
    except OSError:
        pass
    return None
