"""What the training process's own device says about itself and its memory."""

from __future__ import annotations

import os
import resource
import sys
from typing import Any, Dict, Optional


def describe_device(tensor: Any) -> Dict[str, Any]:
    """Type, name, capability and total memory of the device a tensor lies on."""
    torch = sys.modules["torch"]
    if tensor is None or tensor.device.type != "cuda":
        kind = "cpu" if tensor is None else tensor.device.type
        return {"type": kind, "name": kind, "capability": None, "total_bytes": None}
    properties = torch.cuda.get_device_properties(tensor.device)
    return {
        "type": "cuda",
        "name": properties.name,
        "capability": [properties.major, properties.minor],
        "total_bytes": int(torch.cuda.mem_get_info(tensor.device)[1]),
    }


def peak_memory(device: Dict[str, Any]) -> Dict[str, int]:
    """The most memory held so far: on a card as torch's allocator counts it, on a CPU the process's resident set."""
    torch = sys.modules["torch"]
    if device.get("type") == "cuda":
        free, total = torch.cuda.mem_get_info()
        reserved = int(torch.cuda.memory_reserved())
        return {
            "allocated_bytes": int(torch.cuda.max_memory_allocated()),
            "reserved_bytes": int(torch.cuda.max_memory_reserved()),
            # What the CUDA context and other processes hold is not torch's, and cannot be had either.
            "others_bytes": max(0, int(total - free) - reserved),
        }
    unit = 1 if sys.platform == "darwin" else 1024
    return {"allocated_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}


def synchronize(device: Dict[str, Any]) -> None:
    """Everything asked of the card is done, so that a clock means something."""
    if device.get("type") == "cuda":
        sys.modules["torch"].cuda.synchronize()


def held_bytes() -> int:
    """What this process holds now: of the card where there is one, else of main memory."""
    torch = sys.modules["torch"]
    if torch.cuda.is_available():
        return int(torch.cuda.memory_allocated())
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def peak_bytes() -> Optional[int]:
    """The most that it held of the card, or what it holds of main memory; None where that cannot be read."""
    torch = sys.modules["torch"]
    return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else held_bytes() or None
