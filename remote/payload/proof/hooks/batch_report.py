"""The part of the hooks' report about batches: labels, targets of losses, and inputs of model calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple


@dataclass(frozen=True)
class LabelCounts:
    """The `labels` of one model call. `counted`: labels other than -100; `step`: index of the optimizer step.

    `padding_counted`: labels other than -100 at positions where the attention mask is 0. `padding_ids`: the number of
    distinct ids among these labels. `real`: positions where the mask is 1. Without a mask of the labels' shape,
    `padding_counted` and `real` are None. `copies_input`: the labels equal the input ids. `of_input`: most labels equal
    the input id at the same or the next position. `edge_run`: the share of labels that repeat one id at an end of the
    rows. `items`: num_items_in_batch. `empty_rows`: rows in which all labels are -100.
    """

    shape: Tuple[int, ...]
    total: int
    counted: int
    edge_run: float
    padding_counted: Optional[int] = None
    padding_ids: int = 0
    real: Optional[int] = None
    copies_input: bool = False
    of_input: bool = False
    items: Optional[float] = None
    empty_rows: int = 0
    step: int = 0


@dataclass(frozen=True)
class EntropyTargets:
    """The targets of one cross entropy. `dtype` is the dtype of the logits; `autocast` is the active autocast dtype."""

    total: int
    counted: int
    dtype: str
    autocast: Optional[str] = None


@dataclass(frozen=True)
class ValueTargets:
    """The targets of a loss without ignore_index over `batches` calls. `ignored` targets are exactly -100."""

    loss: str
    batches: int = 0
    total: int = 0
    ignored: int = 0


@dataclass(frozen=True)
class RowEnds:
    """The token that follows the last label of each row of one batch, if it is the same `id` in all `rows`.

    `learnt`: the token is a label somewhere in the batch. `attended`: its attention mask is 1 in all rows. `pads`: the
    positions outside of the mask contain the token. `configured`: the model's config names it as the end of text.
    `marked`: all rows have the same last label, perhaps an end marker.
    """

    rows: int
    id: int
    learnt: bool
    attended: bool
    pads: bool
    configured: bool
    marked: bool


@dataclass(frozen=True)
class TargetOffsets:
    """The offset between the targets of one cross entropy and the input tokens at the positions of their logits.

    `share` maps each offset to the share of the `rows` that match it. `ahead` is the number of positions by which the
    labels passed to the model are already shifted, or None without such labels.
    """

    rows: int
    share: Dict[str, float]
    ahead: Optional[int] = None


@dataclass(frozen=True)
class IgnoredGradient:
    """The gradient of the logits at the positions of one batch that have no label, or the label -100.

    `reached` is the number of positions with a gradient; `compared` of these positions were sampled. In `uniform`
    samples the gradient points to the uniform distribution; in `one_id` samples it points to one id, which is the same
    in all samples.
    """

    positions: int
    reached: int
    compared: int = 0
    uniform: int = 0
    one_id: int = 0


@dataclass(frozen=True)
class InputRepeats:
    """The inputs of the first model call in each optimizer step.

    `repeats`: how many of `steps` had the same inputs as the first step. `features`: float inputs by name. `constant`:
    features that contained a single number in every step. `same`: features that were equal in every step while other
    inputs changed.
    """

    steps: int = 0
    repeats: int = 0
    features: Tuple[str, ...] = ()
    constant: Tuple[str, ...] = ()
    same: Tuple[str, ...] = ()


@dataclass(frozen=True)
class LossUse:
    """The losses of model calls in steps with num_items_in_batch.

    `shares`: the loss at which backward starts, divided by the model's loss. `trainer`: transformers' Trainer made the
    step. `passed`: the model got num_items_in_batch, which the compute_loss of a Trainer may omit. `place`: the model's
    forward method, or this compute_loss.
    """

    shares: Tuple[float, ...]
    place: str = ""
    trainer: bool = False
    passed: bool = True


@dataclass(frozen=True)
class BatchTables:
    """The labels, targets and inputs of the first batches."""

    labels: Tuple[LabelCounts, ...] = ()
    entropies: Tuple[EntropyTargets, ...] = ()
    values: Tuple[ValueTargets, ...] = ()
    ends: Tuple[RowEnds, ...] = ()
    offsets: Tuple[TargetOffsets, ...] = ()
    ignored: Tuple[IgnoredGradient, ...] = ()
    inputs: InputRepeats = field(default_factory=InputRepeats)
    loss_use: Optional[LossUse] = None
