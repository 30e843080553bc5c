"""Record the labels, targets and inputs of the first batches."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .accumulation import LossMeasure, excess
from .autocast import autocast_dtype
from .batch_report import BatchTables, EntropyTargets, LabelCounts, RowEnds, ValueTargets
from .counterfactual import ModelCall, examine
from .foreign import items_of, parameters_in, read
from .inputs import InputMeasure
from .labels import count_values, measure_labels
from .report import Counterfactual
from .row_ends import measure_ends
from .step import Step
from .targets import TargetMeasure

BATCHES = 16
MODEL = "the model"
"""The name of a loss that the model computes itself from its argument `labels`."""


class Batches:
    def __init__(self) -> None:
        self.targets = TargetMeasure()
        self.losses = LossMeasure()
        self.call: Optional[ModelCall] = None
        self._size = 0
        self._inputs = InputMeasure()
        self._labels: List[LabelCounts] = []
        self._ends: List[RowEnds] = []
        self._entropies: List[EntropyTargets] = []
        self._values: Dict[str, ValueTargets] = {}

    def summary(self) -> BatchTables:
        offsets, ignored = self.targets.summary()
        return BatchTables(
            labels=tuple(self._labels),
            entropies=tuple(self._entropies),
            values=tuple(self._values.values()),
            ends=tuple(self._ends),
            offsets=offsets,
            ignored=ignored,
            inputs=self._inputs.summary(),
            loss_use=self.losses.summary(),
        )

    def recompute(self, optimizer: Any, steps: Sequence[Step], world: int) -> Counterfactual:
        """Return how other inputs and dtypes change the result of the last kept call."""
        use = self.losses.summary()
        undivided = use is not None and use.passed and excess(use, steps, world) > 1.0
        return examine(self.call, optimizer, world, vary_items=undivided)

    def note_call(self, root: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any], output: Any, step: int) -> None:
        """Record a completed model call in the optimizer step with the index `step`."""
        given = next((items_of(arg) for arg in args if hasattr(arg, "keys")), {})
        inputs = {**{str(at): arg for at, arg in enumerate(args)}, **given, **kwargs}
        self.targets.end(inputs)
        self._inputs.note(inputs, step)
        self.losses.note_output(root, inputs, output)
        self._keep_call(root, args, kwargs)
        self.note_values(MODEL, inputs.get("labels"), None)
        counts = measure_labels(inputs)
        if counts is None or len(self._labels) >= BATCHES:
            return
        self._labels.append(dataclasses.replace(counts, step=step))
        ends = measure_ends(root, inputs)
        if ends is not None:
            self._ends.append(ends)

    def _keep_call(self, root: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        """Keep the last call of the largest model, unless one of its inputs requires gradients."""
        size = sum(p.numel() for p in parameters_in(root))
        given = [*args, *kwargs.values()]
        if size < self._size or any(read(one, "requires_grad") for one in given):
            return
        device = next((p.device.type for p in parameters_in(root)), "cpu")
        self._size, self.call = size, ModelCall(root, args, kwargs, device, autocast_dtype(device))

    def note_values(self, loss: str, target: Any, lengths: Any) -> None:
        """Record the target of a loss that has no ignored value.

        For CTC, record only the targets within the target lengths.
        """
        row = self._values.setdefault(loss, ValueTargets(loss))
        measured = count_values(target, lengths) if row.batches < BATCHES else None
        if measured is not None:
            total, ignored = measured
            self._values[loss] = ValueTargets(loss, row.batches + 1, row.total + total, row.ignored + ignored)

    def note_entropy(self, scores: Any, target: Any, ignored: int) -> None:
        """Record the target of a cross entropy over class ids, and the dtype in which it is computed."""
        if len(self._entropies) >= BATCHES or target.is_floating_point() or not target.numel():
            return
        counted = int((target != ignored).sum())
        cast = autocast_dtype(scores.device.type)
        self._entropies.append(EntropyTargets(target.numel(), counted, str(scores.dtype), cast))
        self.targets.note_entropy(scores, target, ignored)
