"""What can be told of a batch's labels from outside: how many count, whether padding or the prompt is among them."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Tuple

from .autocast import autocast_dtype

IGNORED = -100
BATCHES = 16
MOSTLY = 0.8
MODEL = "the model"


class Batches:
    """The labels and targets of the first batches."""

    def __init__(self) -> None:
        self.labels: List[Dict[str, Any]] = []
        self.targets: List[Dict[str, Any]] = []
        self.unignored: Dict[str, Dict[str, Any]] = {}

    def summary(self) -> Dict[str, List[Dict[str, Any]]]:
        """Everything noted, as it is reported."""
        return {"labels": self.labels, "targets": self.targets, "unignored": list(self.unignored.values())}

    def note_inputs(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], attempt: int) -> None:
        """What a model is called with, in the optimizer step of that number."""
        given = next((dict(arg) for arg in args if hasattr(arg, "keys")), {})
        inputs = {**given, **kwargs}
        self.note_floats(MODEL, inputs.get("labels"), None)
        row = measure_labels(inputs)
        if row is not None and len(self.labels) < BATCHES:
            self.labels.append({**row, "attempt": attempt})

    def note_floats(self, loss: str, target: Any, lengths: Any) -> None:
        """What a loss is computed from that takes every target for a value; of CTC, what is within the lengths."""
        row = self.unignored.setdefault(loss, {"loss": loss, "batches": 0, "total": 0, "ignored": 0})
        measured = measure_unignored(target, lengths) if row["batches"] < BATCHES else None
        if measured is not None:
            row["batches"] += 1
            row["total"] += measured[0]
            row["ignored"] += measured[1]

    def note_targets(self, scores: Any, target: Any, ignored: int) -> None:
        """What a cross entropy is computed from."""
        row = measure_targets(scores, target, ignored) if len(self.targets) < BATCHES else None
        if row is not None:
            self.targets.append({**row, "autocast": autocast_dtype(scores.device.type)})


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
        "of_input": False,
        "edge_run": _edge_run(labels, counted),
    }
    mask, tokens = inputs.get("attention_mask"), inputs.get("input_ids")
    if isinstance(mask, torch.Tensor) and mask.shape == labels.shape:
        beyond = counted & (mask == 0)
        row["padding_counted"] = int(beyond.sum())
        row["padding_ids"] = int(labels[beyond].unique().numel())
        row["real"] = int((mask != 0).sum())
    if isinstance(tokens, torch.Tensor) and tokens.shape == labels.shape:
        real = mask != 0 if isinstance(mask, torch.Tensor) and mask.shape == labels.shape else torch.ones_like(counted)
        row["copies_input"] = bool(((labels == tokens) | ~real).all())
        row["of_input"] = _of_input(labels, tokens, counted)
    if (items := inputs.get("num_items_in_batch")) is not None:
        row["items"] = float(items)
    return row


def _of_input(labels: Any, tokens: Any, counted: Any) -> bool:
    """The labels are the input's own tokens, each at its place or at that of the one before it."""
    here = int(((labels == tokens) & counted).sum())
    ahead = int(((labels == tokens.roll(-1, dims=-1)) & counted).sum())
    return max(here, ahead) > MOSTLY * int(counted.sum())


def _edge_run(labels: Any, counted: Any) -> float:
    """The share of the batch that is one id repeated at an end of its sequences: padding used as a target."""
    if labels.dim() != 2 or labels.shape[1] < 8 or not bool(counted.all()):
        return 0.0
    last, first = labels == labels[:, -1:], labels == labels[:, :1]
    tail = last.flip(1).cumprod(1).sum()
    head = first.cumprod(1).sum()
    return float(max(int(tail), int(head)) - int(labels.shape[0])) / int(labels.numel())


def measure_unignored(target: Any, lengths: Any) -> Optional[Tuple[int, int]]:
    """How many targets are values to the loss, and how many of those are exactly -100."""
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


def measure_targets(scores: Any, target: Any, ignored: int) -> Optional[Dict[str, Any]]:
    """Counts over the targets of a cross entropy, and the dtype it is computed from."""
    if target.is_floating_point() or not target.numel():
        return None
    return {"total": target.numel(), "counted": int((target != ignored).sum()), "dtype": str(scores.dtype)}
