"""Detect inputs of model calls that do not vary: the same batch in each step, or constant features."""

from __future__ import annotations

import re
import sys
from typing import Any, Dict, Set

from .batch_report import InputRepeats

SAMPLE = 4096
FEATURES = re.compile(r"feature|audio|speech|sound|signal|wav|fbank|mel|spectro|input_values|pixel|^0$", re.IGNORECASE)
OTHERS = re.compile(r"mask|len|size|pos", re.IGNORECASE)
LEAST_NUMBERS = 64


class InputMeasure:
    """Compares the first model call of each optimizer step with that of step 1."""

    def __init__(self) -> None:
        self._steps: Set[int] = set()
        self._repeats = 0
        self._first: Dict[str, Any] = {}
        self._features: Set[str] = set()
        self._varied: Set[str] = set()
        self._changed: Set[str] = set()

    def note(self, inputs: Dict[str, Any], step: int) -> None:
        """Record the inputs of a model call in the optimizer step with the index `step`."""
        torch = sys.modules["torch"]
        if step in self._steps:
            return
        tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor) and value.numel()}
        if not tensors:
            return
        samples = {name: _sample(value) for name, value in tensors.items()}
        for name, value in tensors.items():
            if _is_feature(name, value):
                self._features.add(name)
                self._varied |= {name} if is_varied_feature(name, value) else set()
        if self._steps:
            changed = {name for name in samples if not _equal(samples[name], self._first.get(name))}
            self._repeats += not changed and samples.keys() == self._first.keys()
            self._changed |= changed
        else:
            self._first = samples
        self._steps.add(step)

    def summary(self) -> InputRepeats:
        """Return the inputs that were the same in all steps."""
        same = self._features - self._changed if self._changed and len(self._steps) > 1 else set()
        constant = self._features - self._varied
        names = (tuple(sorted(repeats)) for repeats in (self._features, constant, same - constant))
        return InputRepeats(len(self._steps), self._repeats, *names)


def _sample(value: Any) -> Any:
    flat = value.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE].clone()


def _equal(sample: Any, other: Any) -> bool:
    return other is not None and sample.shape == other.shape and bool(sys.modules["torch"].equal(sample, other))


def is_varied_feature(name: str, value: Any) -> bool:
    """Return True for float features that contain more than one distinct number."""
    return _is_feature(name, value) and bool(value.detach().max() != value.detach().min())


def _is_feature(name: str, value: Any) -> bool:
    floats = value.is_floating_point() and value.dim() > 1 and value.numel() >= LEAST_NUMBERS
    return floats and FEATURES.search(name) is not None and OTHERS.search(name) is None
