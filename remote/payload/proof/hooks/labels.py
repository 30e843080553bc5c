"""Count a batch's labels: those that contribute to the loss, and those that are padding or part of the prompt."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Dict, Optional, Tuple

from .batch_report import LabelCounts

IGNORED = -100
MIN_INPUT_SHARE = 0.8


def measure_labels(inputs: Dict[str, Any]) -> Optional[LabelCounts]:
    """Count a model call's `labels`, with its `attention_mask` and `input_ids` if they have the same shape.

    Return None without integer labels.
    """
    torch = sys.modules["torch"]
    labels = inputs.get("labels")
    if not isinstance(labels, torch.Tensor) or labels.is_floating_point() or not labels.numel():
        return None
    counted = labels != IGNORED
    items = inputs.get("num_items_in_batch")
    counts = LabelCounts(
        shape=tuple(labels.shape),
        total=labels.numel(),
        counted=int(counted.sum()),
        edge_run=_edge_run(labels, counted),
        empty_rows=int((~counted.any(dim=-1)).sum()) if labels.dim() > 1 else 0,
        items=None if items is None else float(items),
    )
    mask, tokens = (
        _tensor_of_same_shape(labels, inputs.get("attention_mask")),
        _tensor_of_same_shape(labels, inputs.get("input_ids")),
    )
    real = torch.ones_like(counted) if mask is None else mask != 0
    if mask is not None:
        padding = counted & ~real
        ids = int(labels[padding].unique().numel())
        counts = dataclasses.replace(counts, padding_counted=int(padding.sum()), padding_ids=ids, real=int(real.sum()))
    if tokens is not None:
        copies = bool(((labels == tokens) | ~real).all())
        counts = dataclasses.replace(counts, copies_input=copies, of_input=_are_input_tokens(labels, tokens, counted))
    return counts


def _tensor_of_same_shape(labels: Any, value: Any) -> Optional[Any]:
    is_tensor = isinstance(value, sys.modules["torch"].Tensor)
    return value if is_tensor and value.shape == labels.shape else None


def _are_input_tokens(labels: Any, tokens: Any, counted: Any) -> bool:
    """Return True if the labels are tokens of the input, at the same position or one position earlier."""
    same = int(((labels == tokens) & counted).sum())
    shifted = int(((labels == tokens.roll(-1, dims=-1)) & counted).sum())
    return max(same, shifted) > MIN_INPUT_SHARE * int(counted.sum())


def _edge_run(labels: Any, counted: Any) -> float:
    """Return the share of the batch that repeats one id at an end of its sequences: padding used as a target."""
    if labels.dim() != 2 or labels.shape[1] < 8 or not bool(counted.all()):
        return 0.0
    last, first = labels == labels[:, -1:], labels == labels[:, :1]
    tail = last.flip(1).cumprod(1).sum()
    head = first.cumprod(1).sum()
    return float(max(int(tail), int(head)) - int(labels.shape[0])) / int(labels.numel())


def count_values(target: Any, lengths: Any) -> Optional[Tuple[int, int]]:
    """Return the number of floating-point targets, and the number of targets that are exactly -100.

    Return None for class ids, and without targets.
    """
    torch = sys.modules["torch"]
    if not isinstance(target, torch.Tensor) or not target.numel():
        return None
    counted = torch.ones_like(target, dtype=torch.bool)
    if lengths is not None and target.dim() == 2:
        ends = torch.as_tensor(lengths, device=target.device)
        counted = torch.arange(target.shape[1], device=target.device) < ends[:, None]
    elif lengths is None and not target.is_floating_point():
        return None
    return int(counted.sum()), int(((target == IGNORED) & counted).sum())
