"""Describe the device of a training process and its memory."""

from __future__ import annotations

import os
import resource
import sys
from typing import Any, Optional

from .report import Device, Memory


def describe_device(tensor: Any) -> Device:
    """Return the device of a tensor, or the CPU if there is no tensor."""
    torch = sys.modules["torch"]
    if tensor is None or tensor.device.type != "cuda":
        kind = "cpu" if tensor is None else tensor.device.type
        return Device(kind, kind)
    properties = torch.cuda.get_device_properties(tensor.device)
    total = int(torch.cuda.mem_get_info(tensor.device)[1])
    return Device("cuda", properties.name, (properties.major, properties.minor), total)


def peak_memory(device: Device) -> Memory:
    """Return the peak memory so far: that of torch's allocator on a card, that of the resident set on a CPU."""
    torch = sys.modules["torch"]
    if device.type != "cuda":
        unit = 1 if sys.platform == "darwin" else 1024
        return Memory(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
    free, total = torch.cuda.mem_get_info()
    return Memory(
        allocated_bytes=int(torch.cuda.max_memory_allocated()),
        reserved_bytes=int(torch.cuda.max_memory_reserved()),
        others_bytes=max(0, int(total - free) - int(torch.cuda.memory_reserved())),
    )


def synchronize(device: Device) -> None:
    """Wait until the card has finished all submitted work, so that the time of a step can be measured."""
    if device.type == "cuda":
        sys.modules["torch"].cuda.synchronize()


def held_bytes() -> int:
    """Return the bytes that this process uses, on the card if there is one, else in main memory. 0 means unknown."""
    torch = sys.modules["torch"]
    if torch.cuda.is_available():
        return int(torch.cuda.memory_allocated())
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def peak_bytes() -> Optional[int]:
    """Return the peak memory used on the card, or the main memory in use now. Return None if neither can be read."""
    torch = sys.modules["torch"]
    return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else held_bytes() or None
