"""Whether a backward pass starts at a loss that a scaler has scaled, told by a mark in the graph of the loss."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Tuple

MARK = "halfstep_scaled"
NEAR = 64
LARGE = 256.0


def mark_scaled(result: Any) -> None:
    """What scaler.scale gave, one tensor or several, can be told from any other."""
    for tensor in _tensors(result):
        if getattr(tensor, "grad_fn", None) is not None:
            tensor.grad_fn.metadata[MARK] = True


def kind_of(start: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> str:
    """`scaled` where all of what backward starts at, or is computed from near it, is; `plain` where none is.

    `by hand` where something else multiplied it by as much; empty where gradients are given from outside, which may
    carry a scale of their own.
    """
    given = args[0] if args else kwargs.get("grad_tensors", kwargs.get("grad_variables"))
    roots = _tensors(start)
    if not roots or any(one is not None for one in (given if isinstance(given, (tuple, list)) else [given])):
        return ""
    kinds = {_is_scaled(root) for root in roots}
    if len(kinds) > 1:
        return ""
    if kinds.pop():
        return "scaled"
    return "by hand" if any(_by_hand(root) for root in roots) else "plain"


def _by_hand(root: Any) -> bool:
    """A loss that was multiplied and is as large as no loss is: `loss * scaler.get_scale()`."""
    multiplied = root.grad_fn is not None and root.grad_fn.name().startswith("Mul")
    return multiplied and root.numel() == 1 and abs(float(root.detach())) > LARGE


def _is_scaled(root: Any) -> bool:
    """A scaled loss may have been divided by micro-steps, or added to others, since."""
    waiting = [root.grad_fn]
    for _ in range(NEAR):
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
