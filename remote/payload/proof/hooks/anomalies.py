"""What is wrong with a training, judged step by step: pure, so that a table of steps tests it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import List, Optional, Sequence, Set, Tuple

IDLE_STEPS = 20
IDLE_WARNING = 5
SKIP_WINDOW = 50
SKIP_BUDGET = 10
CONSECUTIVE_SKIPS = 8
LOWEST_SCALE = 1.0
CREEP_WINDOW = 20
CREEP_FACTOR = 1.3
CREEP_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Step:
    """One tried optimizer step: micro-steps' losses, gradient norm, loss scale, rate, bytes held.

    `grad_norm` None: the step was skipped, or the gradients could not be seen; `rate` None: nor could the rate.
    `spoiled`: trained tensors are not finite after it, which is looked for where something else is strange.
    """

    number: int
    losses: Sequence[float]
    grad_norm: Optional[float]
    scale: Optional[float]
    skipped: bool
    rate: Optional[float]
    held_bytes: int = 0
    spoiled: bool = False


@dataclass(frozen=True)
class Anomaly:
    """Something to report at once; an error, which rests on two signals, means that going on is wasted time."""

    check: str
    severity: str
    message: str
    step: int


class Vigil:
    """Judges each step by those before it; each kind of trouble is reported once, and once more where it gets worse.

    `trained_before`: the run goes on from a checkpoint, so that a gradient of 0 may be the end of a training that went
    well, and not one that never began.
    """

    def __init__(self, *, trained_before: bool = False) -> None:
        self.applied = 0
        self._reported: Set[Tuple[str, str]] = set()
        self._skips: List[bool] = []
        self._reached = trained_before
        self._idle = 0
        self._bad_losses = 0
        self._first_scale: Optional[float] = None
        self._held: List[int] = []
        self._baseline = 0

    def look(self, step: Step) -> List[Anomaly]:
        """What this step shows that was not reported before."""
        self._skips = [*self._skips, step.skipped][-SKIP_WINDOW:]
        self.applied += not step.skipped
        seen = [*self._loss(step), *self._gradient(step), *self._scale(step), *self._memory(step)]
        fresh = [anomaly for anomaly in seen if (anomaly.check, anomaly.severity) not in self._reported]
        self._reported.update((anomaly.check, anomaly.severity) for anomaly in fresh)
        return fresh

    def _loss(self, step: Step) -> List[Anomaly]:
        """A loss that is not finite ruins nothing by itself: a scaler skips it, or it has no gradient."""
        if all(math.isfinite(loss) for loss in step.losses):
            self._bad_losses = 0
            return []
        self._bad_losses = self._bad_losses + 1 if step.skipped or step.grad_norm == 0.0 else 0
        lost = step.spoiled or self._bad_losses >= CONSECUTIVE_SKIPS
        message = f"the loss is {_first_bad(step.losses)} in step {step.number}"
        if self._bad_losses > 1:
            message += f", the last of {self._bad_losses} such steps in a row, which changed nothing"
        return [(_error if lost else _warning)("loss-finite", message, step)]

    def _gradient(self, step: Step) -> List[Anomaly]:
        if step.spoiled:
            message = f"trained tensors are not finite after step {step.number}, of a gradient norm of {step.grad_norm}"
            return [_error("gradient-finite", message, step)]
        if step.skipped or step.grad_norm is None:
            return []
        if not math.isfinite(step.grad_norm):
            self._reached = True
            message = f"the gradient norm is {step.grad_norm} in step {step.number} and the step was applied"
            return [_warning("gradient-finite", message, step)]
        if step.grad_norm > 0.0:
            self._reached, self._idle = True, 0
            return []
        return self._without_gradient(step)

    def _without_gradient(self, step: Step) -> List[Anomaly]:
        """Satisfied margins and equal rewards give no gradient either; only a training of nothing else is lost.

        What has had gradients before may have learnt all that there is.
        """
        self._idle += 1
        zero = bool(step.losses) and all(loss == 0.0 for loss in step.losses)
        message = f"every gradient is 0 in the {self._idle} steps up to step {step.number}"
        if zero:
            message = f"the loss is exactly 0.0, and {message}"
        if self._idle >= IDLE_STEPS and not self._reached:
            return [_error("loss-zero" if zero else "gradient-zero", f"{message}: nothing is being learnt", step)]
        if self._idle >= IDLE_WARNING:
            return [_warning("loss-zero" if zero else "gradient-zero", message, step)]
        return []

    def _scale(self, step: Step) -> List[Anomaly]:
        """A scale is judged by where it began: a low one that never fell is as it was wanted."""
        if step.scale is None:
            return []
        if self._first_scale is None:
            self._first_scale = step.scale
        skips = sum(self._skips)
        in_a_row = len(self._skips) >= CONSECUTIVE_SKIPS and all(self._skips[-CONSECUTIVE_SKIPS:])
        collapsed = step.scale < LOWEST_SCALE and step.scale < self._first_scale
        if in_a_row and self.applied == 0 and (collapsed or step.scale >= self._first_scale):
            message = f"all of the first {len(self._skips)} steps overflowed; the scale is {step.scale:g} now"
            return [_error("scaler-trajectory", message, step)]
        found = []
        if skips > SKIP_BUDGET:
            message = f"{skips} of the last {len(self._skips)} steps were skipped for overflow"
            found.append(_warning("skipped-steps", message, step))
        if collapsed:
            message = f"the loss scale fell from {self._first_scale:g} to {step.scale:g}: gradients overflow unscaled"
            found.append((_error if in_a_row else _warning)("scale-collapse", message, step))
        return found

    def _memory(self, step: Step) -> List[Anomaly]:
        self._held = [*self._held, step.held_bytes][-CREEP_WINDOW:]
        if step.number == 2 * CREEP_WINDOW:
            self._baseline = max(self._held)
        least = min(self._held)
        if self._baseline and least > self._baseline * CREEP_FACTOR and least - self._baseline > CREEP_BYTES:
            gained = (least - self._baseline) / 2**20
            return [_warning("memory-creep", f"{gained:.0f} MiB more are held than {step.number - 40} steps ago", step)]
        return []


def _first_bad(losses: Sequence[float]) -> float:
    return next(loss for loss in losses if not math.isfinite(loss))


def _error(check: str, message: str, step: Step) -> Anomaly:
    return Anomaly(check, "error", message, step.number)


def _warning(check: str, message: str, step: Step) -> Anomaly:
    return Anomaly(check, "warning", message, step.number)
