"""Whether autocast is on right here, and in which dtype."""

from __future__ import annotations

import sys
from typing import Any, Dict, Optional

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


def waits_for_card() -> Dict[str, int]:
    """Accelerate, which the Trainer stands on, makes neither autocast nor scaler for float16 where there is no card."""
    state = getattr(sys.modules.get("accelerate.state"), "AcceleratorState", None)
    shared = getattr(state, "_shared_state", {})
    if shared.get("_mixed_precision") != "fp16" or getattr(shared.get("device"), "type", "cpu") != "cpu":
        return {}
    return {"autocast_waits_for_card": 1, "scaler_waits_for_card": 1}
