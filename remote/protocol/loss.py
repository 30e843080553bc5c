"""The training loss, as all commands show it: the mean over the newest optimizer steps."""

from __future__ import annotations

from typing import Iterable, Iterator, List, Optional, Tuple

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
    """Format a mean of losses: 'mean loss 1.831'. The label `loss` without `mean` is used for the loss of one step."""
    return f"mean loss {loss_text(loss)}"


class MeanLoss:
    """The mean loss over the newest optimizer steps, the lowest of these means, and the first loss.

    `status`, `list`, the live view and the report show these three values. The chart of the report draws these means.
    """

    def __init__(self) -> None:
        self.mean: Optional[float] = None
        self.lowest: Optional[float] = None
        self.first: Optional[float] = None
        self._front: List[Tuple[int, float]] = []
        self._back: List[Tuple[int, float]] = []
        self._back_sum = 0.0

    def add(self, step: int, loss: float) -> None:
        """Add the loss of a step, which must be finite. Steps must be added in order; steps may be missing."""
        if self.first is None:
            self.first = loss
        self._back.append((step, loss))
        self._back_sum += loss
        while (self._front[-1] if self._front else self._back[0])[0] <= step - steps_in_mean(step):
            self._drop_oldest()
        total = self._back_sum + (self._front[-1][1] if self._front else 0.0)
        self.mean = total / (len(self._front) + len(self._back))
        if self.lowest is None or self.mean < self.lowest:
            self.lowest = self.mean

    def _drop_oldest(self) -> None:
        """Drop the oldest loss.

        The last entry of `_front` is the oldest. Each entry holds the sum of its own loss and all newer losses in
        `_front`. Each loss moves from `_back` to `_front` once, so the cost per loss does not depend on the size of the
        window. Nothing is subtracted, so no rounding errors accumulate.
        """
        if not self._front:
            total = 0.0
            for step, loss in reversed(self._back):
                total += loss
                self._front.append((step, total))
            self._back.clear()
            self._back_sum = 0.0
        self._front.pop()


def mean_losses(points: Iterable[Tuple[int, float]]) -> Iterator[Tuple[int, float]]:
    """Yield (step, mean loss at that step) for each (step, loss) of `points`.

    Losses are finite, and steps are in order.
    """
    loss = MeanLoss()
    for step, value in points:
        loss.add(step, value)
        if loss.mean is not None:
            yield step, loss.mean
