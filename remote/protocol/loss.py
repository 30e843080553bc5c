"""The training loss, as all commands show it: the mean over the newest optimizer steps."""

from __future__ import annotations

from collections import deque
from typing import Deque, Iterable, Iterator, Optional, Tuple

FEWEST = 10
LARGEST = 1e100
"""The largest loss that is drawn or averaged. Sums and squares of losses up to this limit are finite."""
SHARE = 30


def steps_in_mean(step: int) -> int:
    """Return the number of optimizer steps over which the loss at `step` is averaged:

    10, or `step` / 30 if that is more.
    """
    return max(FEWEST, step // SHARE)


def loss_text(loss: float) -> str:
    """Format a loss with four significant digits."""
    return f"{loss:.4g}"


def mean_loss_text(loss: float) -> str:
    """Format a mean of losses: 'mean loss 1.831'. `loss` alone is the value of one step."""
    return f"mean loss {loss_text(loss)}"


class MeanLoss:
    """The mean loss over the newest optimizer steps, the lowest mean of at least FEWEST steps, and the first loss."""

    def __init__(self) -> None:
        self.mean: Optional[float] = None
        self.lowest: Optional[float] = None
        self.first: Optional[float] = None
        self._first: Optional[int] = None
        self._steps: Deque[int] = deque()
        self._losses: Deque[float] = deque()

    def add(self, step: int, loss: float) -> None:
        """Add the loss of a step, which must be finite. Steps must be added in order; steps may be missing."""
        if self._first is None:
            self._first, self.first = step, loss
        self._steps.append(step)
        self._losses.append(loss)
        while self._steps[0] <= step - steps_in_mean(step):
            self._steps.popleft()
            self._losses.popleft()
        self.mean = sum(self._losses) / len(self._losses)
        if self.lowest is None or step - self._first < FEWEST or self.mean < self.lowest:
            self.lowest = self.mean


def mean_losses(points: Iterable[Tuple[int, float]]) -> Iterator[Tuple[int, float]]:
    """Yield (step, mean loss at that step) for each (step, loss) of `points`.

    Losses are finite, and steps are in order.
    """
    loss = MeanLoss()
    for step, value in points:
        loss.add(step, value)
        if loss.mean is not None:
            yield step, loss.mean
