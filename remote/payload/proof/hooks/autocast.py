"""Whether autocast is on right here, and in which dtype."""

from __future__ import annotations

import sys
from typing import Any, Optional

from .tensors import short


def autocast_dtype(device_type: str) -> Optional[str]:
    """The dtype operations are cast to on that device now; None where autocast is off."""
    torch: Any = sys.modules["torch"]
    if hasattr(torch, "get_autocast_dtype"):
        return short(torch.get_autocast_dtype(device_type)) if torch.is_autocast_enabled(device_type) else None
    # Before torch 2.4 each device had functions of its own.
    if device_type == "cpu":
        return short(torch.get_autocast_cpu_dtype()) if torch.is_autocast_cpu_enabled() else None
    return short(torch.get_autocast_gpu_dtype()) if torch.is_autocast_enabled() else None
