"""The loss of a training as every command shows it: the mean over its newest optimizer steps."""

from __future__ import annotations

from collections import deque
from typing import Deque, Iterable, Iterator, Optional, Tuple

FEWEST = 10
LARGEST = 1e100
"""The largest value that is drawn or averaged: sums and squares of such values are finite."""
SHARE = 30


def steps_in_mean(step: int) -> int:
    """Return over how many optimizer steps the loss at `step` is averaged: 10, or a thirtieth of a longer training."""
    return max(FEWEST, step // SHARE)


def loss_text(loss: float) -> str:
    """Return a loss with four digits, as every command prints it."""
    return f"{loss:.4g}"


class MeanLoss:
    """The mean loss over the newest optimizer steps, and its lowest value since it covers at least FEWEST steps."""

    def __init__(self) -> None:
        self.mean: Optional[float] = None
        self.lowest: Optional[float] = None
        self._first: Optional[int] = None
        self._steps: Deque[int] = deque()
        self._losses: Deque[float] = deque()

    def add(self, step: int, loss: float) -> None:
        """Add the finite loss of a step. Steps come in order, and some may be missing."""
        self._first = step if self._first is None else self._first
        self._steps.append(step)
        self._losses.append(loss)
        while self._steps[0] <= step - steps_in_mean(step):
            self._steps.popleft()
            self._losses.popleft()
        self.mean = sum(self._losses) / len(self._losses)
        if self.lowest is None or step - self._first < FEWEST or self.mean < self.lowest:
            self.lowest = self.mean


def mean_losses(points: Iterable[Tuple[int, float]]) -> Iterator[Tuple[int, float]]:
    """Yield (step, mean over the newest steps up to it) for each of `points`, which are finite and sorted by step."""
    loss = MeanLoss()
    for step, value in points:
        loss.add(step, value)
        if loss.mean is not None:
            yield step, loss.mean
