"""Rules about optimizer steps that the proof and the live watch share."""

from __future__ import annotations

import re
from typing import Collection, Iterable, Mapping, TypeVar

from .step import Step

K = TypeVar("K")
LOWEST_SCALE = 1.0
ADAPTER = re.compile(r"(^|[._])(lora|adapter|ia3|dora|vera|loha|lokr)", re.IGNORECASE)


def is_adapter(name: str) -> bool:
    """Return True if the tensor belongs to an adapter, according to the names of PEFT and of hand-written adapters."""
    return ADAPTER.search(name) is not None


def loss_is_lost(steps: Iterable[Step], *, nonfinite_weights: bool) -> bool:
    """Return True if non-finite losses ruin the training: weights are not finite, or no step had a gradient.

    A scaler skips a batch that overflows, and a NaN that is only logged has no gradient.
    """
    return nonfinite_weights or not any(step.has_gradient for step in steps)


def scale_cannot_fall(first: float, last: float) -> bool:
    """Return True if a lower loss scale cannot help: the scale did not fall, or is already below LOWEST_SCALE.

    A low scale that never fell was chosen by the user and is not an error.
    """
    return last >= first or last < LOWEST_SCALE


def adapter_is_idle(names: Mapping[K, str], idle: Collection[K]) -> bool:
    """Return True if no tensor of the adapter got a gradient. Without an adapter, all trained tensors are checked.

    `names` are the trained tensors; `idle` are the tensors without a gradient. Parts of a model may be inactive:
    experts to which no token was routed, or a modality that is missing in the first batches.
    """
    adapter_keys = {key for key, name in names.items() if is_adapter(name)} or set(names)
    return bool(adapter_keys) and adapter_keys <= set(idle)
