"""Detect trained weights that change between optimizer steps, and weights that are rounded to float16."""

from __future__ import annotations

import sys
from typing import Any, Dict, Set, Tuple

from .weights_report import ChangedBetween

Prints = Dict[str, Tuple[Any, Any]]
ROUNDING = 1e-5


class Changes:
    """Compares the weights after each optimizer step with the weights before the next step."""

    def __init__(self) -> None:
        self._left: Dict[int, Prints] = {}
        self._steps = 0
        self._changed: Set[str] = set()
        self._rounded: Set[str] = set()

    def after_step(self, optimizer: Any, prints: Prints) -> None:
        """Record the weights after a step."""
        self._left[id(optimizer)] = prints

    def before_step(self, optimizer: Any, prints: Prints) -> None:
        """Compare the weights before the next step with the weights recorded after the last step."""
        left = self._left.pop(id(optimizer), {})
        pairs = {name: (left[name][0], now) for name, (now, _) in prints.items() if name in left}
        changed = {name for name, pair in pairs.items() if _differ(*pair)}
        self._steps += bool(changed)
        self._changed |= changed
        self._rounded |= {name for name in changed if _is_half(pairs[name][1]) and not _is_half(pairs[name][0])}

    def summary(self) -> ChangedBetween:
        return ChangedBetween(self._steps, tuple(sorted(self._changed)), tuple(sorted(self._rounded)))


def _differ(before: Any, after: Any) -> bool:
    """Return True if the tensors differ by more than the rounding error of adding and subtracting a value."""
    if before.shape != after.shape or before.dtype != after.dtype:
        return True
    gap, size = (before - after).abs().max(), before.abs().max()
    return bool(gap > ROUNDING * size)


def _is_half(values: Any) -> bool:
    torch = sys.modules["torch"]
    return bool(torch.equal(values.half().to(values.dtype), values))
