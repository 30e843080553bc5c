"""The training device, and how much of its memory may be used."""

from __future__ import annotations

import os
import sys
from typing import Any, Optional

import torch

from remote.payload.training.memory_plan import Device
from remote.protocol.training import TrainingSpec

CONTEXT_BYTES = 700 * 2**20
"""The memory of a CUDA context. It is subtracted from the memory of an assumed card.

A real card reports this memory as used.
"""
CGROUP = "/sys/fs/cgroup"


def find_device(spec: TrainingSpec, device: Any) -> Device:
    """Return the device to plan for: the process's card, else the card that the host file names, else the CPU.

    Only a part of the free memory is used, because the estimate of a plan does not include fragmentation and the
    buffers of kernels.
    """
    share = spec.train.memory_share
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        name = torch.cuda.get_device_name(device)
        return Device(_name_with_use(name, total - free, total), _least(int(share * free), device))
    if spec.card_bytes is not None:
        return Device(f"{spec.card} (assumed)", int(share * (spec.card_bytes - CONTEXT_BYTES)))
    free_bytes = available_main_memory()
    least = _least(sys.maxsize if free_bytes is None else int(share * free_bytes), device)
    return Device("the CPU", None if least == sys.maxsize else least, is_card=False)


def _name_with_use(name: str, used: int, total: int) -> str:
    """Return the card's name. Add the share of used memory if it is more than the memory of two CUDA contexts."""
    return name if used < 2 * CONTEXT_BYTES else f"{name} ({used / total:.0%} of it in use already)"


def _least(available: int, device: Any) -> int:
    """Return the smallest value of all ranks, so that every rank makes the same plan."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return available
    least = torch.tensor(available, device=device)
    torch.distributed.all_reduce(least, op=torch.distributed.ReduceOp.MIN)
    return int(least)


def available_main_memory() -> Optional[int]:
    """Return the free main memory within the container's limit in bytes, or None on an unknown system."""
    sizes = [size for size in (_meminfo(), _cgroup_free()) if size is not None]
    return min(sizes, default=None)


def _meminfo() -> Optional[int]:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")), None)
    except OSError:
        return None


def _cgroup_free() -> Optional[int]:
    try:
        limit, used = (_read(os.path.join(CGROUP, name)) for name in ("memory.max", "memory.current"))
        return max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return None


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()
