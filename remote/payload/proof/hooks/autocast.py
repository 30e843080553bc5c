"""Read whether autocast is on, and its dtype."""

from __future__ import annotations

import sys
from typing import Any, Dict, Optional, Tuple

from .tensors import dtype_name


def autocast_dtype(device_type: str) -> Optional[str]:
    """Return the dtype to which autocast casts operations on this type of device, or None if autocast is off."""
    torch: Any = sys.modules["torch"]
    if hasattr(torch, "get_autocast_dtype"):
        return dtype_name(torch.get_autocast_dtype(device_type)) if torch.is_autocast_enabled(device_type) else None
    # Before torch 2.4, each device had separate functions.
    if device_type == "cpu":
        return dtype_name(torch.get_autocast_cpu_dtype()) if torch.is_autocast_cpu_enabled() else None
    return dtype_name(torch.get_autocast_gpu_dtype()) if torch.is_autocast_enabled() else None


def autocast_caches() -> bool:
    """Return True if autocast is on, for a card or the CPU, and caches the weights that it casts until it ends."""
    torch = sys.modules["torch"]
    return bool(torch.is_autocast_cache_enabled()) and any(autocast_dtype(kind) for kind in ("cuda", "cpu"))


def is_float16_on_card(context: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    """Return True if an autocast context that is bfloat16 on this CPU would be float16 on a card.

    Without a dtype, each device has its own default. On a CPU, Lightning replaces `16-mixed` with bfloat16, so its
    contexts do not show what the command requested.
    """
    if getattr(context, "device", "") != "cpu" or dtype_name(getattr(context, "fast_dtype", "")) != "bfloat16":
        return False
    given = args[1] if len(args) > 1 else kwargs.get("dtype")
    caller = sys._getframe(2).f_globals.get("__name__", "")
    return given is None or caller.split(".")[0] in ("lightning", "pytorch_lightning", "lightning_fabric")


def accelerate_only_on_card() -> bool:
    """Return True if Accelerate (which Trainer uses) disables float16 autocast and scaler because there is no card."""
    state = getattr(sys.modules.get("accelerate.state"), "AcceleratorState", None)
    shared = getattr(state, "_shared_state", {})
    return shared.get("_mixed_precision") == "fp16" and getattr(shared.get("device"), "type", "cpu") == "cpu"
