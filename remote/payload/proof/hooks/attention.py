"""Which backend scaled_dot_product_attention takes for what it is given, once per kind of call."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Tuple

from .autocast import autocast_dtype
from .tensors import short

BACKENDS = {0: "math", 1: "flash", 2: "mem-efficient", 3: "cudnn", 4: "overrideable"}


class AttentionMeasure:
    """Kinds of attention calls, and how many of each there were."""

    def __init__(self) -> None:
        self._kinds: Dict[Tuple[Any, ...], Dict[str, Any]] = {}

    def note(self, query: Any, key: Any, value: Any, settings: Dict[str, Any]) -> None:
        """One call was made with these."""
        mask = settings.get("attn_mask")
        cast = autocast_dtype(query.device.type)
        kind = (short(query.dtype), cast, query.shape[-1], mask is not None, bool(settings.get("is_causal", False)))
        row = self._kinds.get(kind)
        if row is None:
            backend = _choose(query, key, value, settings, cast)
            row = self._kinds[kind] = {
                "backend": backend,
                "dtype": cast or kind[0],
                "head_size": kind[2],
                "mask": kind[3],
                "calls": 0,
                "device": query.device.type,
            }
        row["calls"] += 1

    def summary(self, roots: List[Any]) -> Dict[str, Any]:
        """Every kind, and what the models' own configs say."""
        asked = {str(getattr(getattr(root, "config", None), "_attn_implementation", "") or "") for root in roots}
        return {"kinds": list(self._kinds.values()), "asked": sorted(asked - {""})}


def _choose(query: Any, key: Any, value: Any, settings: Dict[str, Any], cast: Any) -> str:
    """The backend torch itself would choose: its own function, asked with the dtype that autocast will make."""
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
