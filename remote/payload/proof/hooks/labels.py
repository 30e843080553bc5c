"""Counts over a batch's labels: how many are learnt, and whether padding or the prompt is among them."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Dict, List, Optional, Tuple

from .autocast import autocast_dtype
from .report import BatchTables, EntropyTargets, LabelCounts, ValueTargets

IGNORED = -100
BATCHES = 16
MOSTLY = 0.8
MODEL = "the model"
"""The name of labels that a model takes as values, for a loss of its own."""


class Batches:
    """The labels and targets of the first batches."""

    def __init__(self) -> None:
        self._labels: List[LabelCounts] = []
        self._entropies: List[EntropyTargets] = []
        self._values: Dict[str, ValueTargets] = {}

    def summary(self) -> BatchTables:
        return BatchTables(tuple(self._labels), tuple(self._entropies), tuple(self._values.values()))

    def note_inputs(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], step: int) -> None:
        """Record the arguments of a model call in the optimizer step of that index."""
        given = next((dict(arg) for arg in args if hasattr(arg, "keys")), {})
        inputs = {**given, **kwargs}
        self.note_values(MODEL, inputs.get("labels"), None)
        counts = measure_labels(inputs)
        if counts is not None and len(self._labels) < BATCHES:
            self._labels.append(dataclasses.replace(counts, step=step))

    def note_values(self, loss: str, target: Any, lengths: Any) -> None:
        """Record the target of a loss that has no ignored value; of CTC, the part within the lengths."""
        row = self._values.setdefault(loss, ValueTargets(loss))
        measured = count_values(target, lengths) if row.batches < BATCHES else None
        if measured is not None:
            total, ignored = measured
            self._values[loss] = ValueTargets(loss, row.batches + 1, row.total + total, row.ignored + ignored)

    def note_entropy(self, scores: Any, target: Any, ignored: int) -> None:
        """Record the target of a cross entropy over class ids, and the dtype that it is computed from."""
        if len(self._entropies) >= BATCHES or target.is_floating_point() or not target.numel():
            return
        counted = int((target != ignored).sum())
        cast = autocast_dtype(scores.device.type)
        self._entropies.append(EntropyTargets(target.numel(), counted, str(scores.dtype), cast))


def measure_labels(inputs: Dict[str, Any]) -> Optional[LabelCounts]:
    """Count over `labels` of a model call, beside `attention_mask` and `input_ids` of the same shape, if there are any.

    None without integer labels.
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
        items=None if items is None else float(items),
    )
    mask, tokens = _like(labels, inputs.get("attention_mask")), _like(labels, inputs.get("input_ids"))
    real = torch.ones_like(counted) if mask is None else mask != 0
    if mask is not None:
        padding = counted & ~real
        ids = int(labels[padding].unique().numel())
        counts = dataclasses.replace(counts, padding_counted=int(padding.sum()), padding_ids=ids, real=int(real.sum()))
    if tokens is not None:
        copies = bool(((labels == tokens) | ~real).all())
        counts = dataclasses.replace(counts, copies_input=copies, of_input=_of_input(labels, tokens, counted))
    return counts


def _like(labels: Any, value: Any) -> Optional[Any]:
    is_tensor = isinstance(value, sys.modules["torch"].Tensor)
    return value if is_tensor and value.shape == labels.shape else None


def _of_input(labels: Any, tokens: Any, counted: Any) -> bool:
    """Return True if the labels are the input's own tokens, each in its position or in that of the one before it."""
    same = int(((labels == tokens) & counted).sum())
    shifted = int(((labels == tokens.roll(-1, dims=-1)) & counted).sum())
    return max(same, shifted) > MOSTLY * int(counted.sum())


def _edge_run(labels: Any, counted: Any) -> float:
    """Return the share of the batch that repeats one id at an end of its sequences: padding used as a target."""
    if labels.dim() != 2 or labels.shape[1] < 8 or not bool(counted.all()):
        return 0.0
    last, first = labels == labels[:, -1:], labels == labels[:, :1]
    tail = last.flip(1).cumprod(1).sum()
    head = first.cumprod(1).sum()
    return float(max(int(tail), int(head)) - int(labels.shape[0])) / int(labels.numel())


def count_values(target: Any, lengths: Any) -> Optional[Tuple[int, int]]:
    """Return how many targets the loss reads as values, and how many of those are exactly -100; None for class ids."""
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
