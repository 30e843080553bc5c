"""What can be told of a batch's labels from outside: how many count, whether padding or the prompt is among them."""

from __future__ import annotations

import sys
from typing import Any, Dict, Optional

IGNORED = -100


def measure_labels(inputs: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Counts over `labels` of a model call, with `attention_mask` and `input_ids` where they have the same shape."""
    torch = sys.modules["torch"]
    labels = inputs.get("labels")
    if not isinstance(labels, torch.Tensor) or labels.is_floating_point() or not labels.numel():
        return None
    counted = labels != IGNORED
    row: Dict[str, Any] = {
        "shape": list(labels.shape),
        "total": labels.numel(),
        "counted": int(counted.sum()),
        "padding_counted": None,
        "copies_input": None,
        "edge_run": _edge_run(labels, counted),
    }
    mask, tokens = inputs.get("attention_mask"), inputs.get("input_ids")
    if isinstance(mask, torch.Tensor) and mask.shape == labels.shape:
        row["padding_counted"] = int((counted & (mask == 0)).sum())
        row["real"] = int((mask != 0).sum())
    if isinstance(tokens, torch.Tensor) and tokens.shape == labels.shape:
        real = mask != 0 if isinstance(mask, torch.Tensor) and mask.shape == labels.shape else torch.ones_like(counted)
        row["copies_input"] = bool(((labels == tokens) | ~real).all())
    if (items := inputs.get("num_items_in_batch")) is not None:
        row["items"] = float(items)
    return row


def _edge_run(labels: Any, counted: Any) -> float:
    """The share of the batch that is one id repeated at an end of its sequences: padding used as a target."""
    if labels.dim() != 2 or labels.shape[1] < 8 or not bool(counted.all()):
        return 0.0
    last, first = labels == labels[:, -1:], labels == labels[:, :1]
    tail = last.flip(1).cumprod(1).sum()
    head = first.cumprod(1).sum()
    return float(max(int(tail), int(head)) - int(labels.shape[0])) / int(labels.numel())


def measure_targets(scores: Any, target: Any, ignored: int) -> Optional[Dict[str, Any]]:
    """Counts over the targets of a cross entropy, and the dtype it is computed from."""
    if target.is_floating_point() or not target.numel():
        return None
    return {"total": target.numel(), "counted": int((target != ignored).sum()), "dtype": str(scores.dtype)}
