"""Record the backend that scaled_dot_product_attention uses for each kind of call."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Tuple

from .autocast import autocast_dtype
from .foreign import read
from .report import AttentionCalls, AttentionTables
from .tensors import dtype_name

BACKENDS = {0: "math", 1: "flash", 2: "mem-efficient", 3: "cudnn", 4: "overrideable"}


class AttentionMeasure:
    """The kinds of attention calls that were made."""

    def __init__(self) -> None:
        self._calls: Dict[Tuple[Any, ...], AttentionCalls] = {}

    def note(self, query: Any, key: Any, value: Any, settings: Dict[str, Any]) -> None:
        """Record one call; `settings` are its other arguments by name."""
        mask = settings.get("attn_mask")
        cast = autocast_dtype(query.device.type)
        dtype = dtype_name(query.dtype)
        kind = (dtype, cast, query.shape[-1], mask is not None, bool(settings.get("is_causal", False)))
        if kind not in self._calls:
            backend = _choose(query, key, value, settings, cast)
            self._calls[kind] = AttentionCalls(backend, cast or dtype, query.device.type)

    def summary(self, roots: List[Any]) -> AttentionTables:
        """Return every kind of call, and the attention implementations that the models' configs name."""
        configured = {str(read(root, "config", "_attn_implementation") or "") for root in roots}
        return AttentionTables(tuple(self._calls.values()), tuple(sorted(configured - {""})))


def _choose(query: Any, key: Any, value: Any, settings: Dict[str, Any], cast: Any) -> str:
    """Return the backend that torch's dispatch chooses for the dtype to which autocast will cast."""
    torch = sys.modules["torch"]
    if cast is not None:
        dtype = getattr(torch, cast)
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    mask = settings.get("attn_mask")
    if mask is not None and mask.is_floating_point():
        mask = mask.to(query.dtype)
    choice = torch._fused_sdp_choice(
        query.detach().requires_grad_(query.requires_grad),
        key,
        value,
        mask,
        float(settings.get("dropout_p", 0.0)),
        bool(settings.get("is_causal", False)),
        scale=settings.get("scale"),
        enable_gqa=bool(settings.get("enable_gqa", False)),
    )
    return BACKENDS.get(int(choice), str(int(choice)))
