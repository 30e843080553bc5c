"""Detect whether a backward pass starts at a scaled loss, by a mark in the autograd graph of the loss."""

from __future__ import annotations

from enum import Enum
from typing import Any, Dict, Iterable, List, Tuple

MARK = "halfstep_scaled"
MAX_NODES = 64
LARGE = 256.0


class Start(Enum):
    """The tensor at which a backward pass starts.

    UNKNOWN: gradients are passed to backward, and they may contain another scale.
    """

    SCALED = "scaled"
    PLAIN = "plain"
    BY_HAND = "scaled by hand"
    UNKNOWN = "unknown"


def mark_scaled(result: Any) -> None:
    """Mark the result of `scaler.scale`, which is one tensor or several."""
    for tensor in _tensors(result):
        if getattr(tensor, "grad_fn", None) is not None:
            tensor.grad_fn.metadata[MARK] = True


def classify_start(start: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Start:
    """Return the kind of loss at which `backward(start, *args, **kwargs)` starts.

    SCALED: each tensor of `start` derives from a marked tensor nearby in the graph. PLAIN: no tensor does. BY_HAND:
    other code multiplied a tensor by a factor as large as a loss scale.
    """
    given = args[0] if args else kwargs.get("grad_tensors", kwargs.get("grad_variables"))
    roots = _tensors(start)
    if not roots or any(one is not None for one in (given if isinstance(given, (tuple, list)) else [given])):
        return Start.UNKNOWN
    marked = {_is_scaled(root) for root in roots}
    if len(marked) > 1:
        return Start.UNKNOWN
    if marked == {True}:
        return Start.SCALED
    return Start.BY_HAND if any(_is_scaled_by_hand(root) for root in roots) else Start.PLAIN


def _is_scaled_by_hand(root: Any) -> bool:
    """Return True for a product that is too large for a loss, such as `loss * scaler.get_scale()`."""
    multiplied = root.grad_fn is not None and root.grad_fn.name().startswith("Mul")
    return multiplied and root.numel() == 1 and abs(float(root.detach())) > LARGE


def _is_scaled(root: Any) -> bool:
    """Search the graph near `root`, since a scaled loss may have been divided, or added to other losses."""
    waiting = [root.grad_fn]
    for _ in range(MAX_NODES):
        if not waiting:
            return False
        node = waiting.pop(0)
        if node is None:
            continue
        if MARK in node.metadata:
            return True
        waiting += [earlier for earlier, _ in node.next_functions]
    return False


def _tensors(value: Any) -> List[Any]:
    if hasattr(value, "grad_fn"):
        return [value]
    return [part for part in value if hasattr(part, "grad_fn")] if isinstance(value, Iterable) else []
