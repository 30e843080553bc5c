"""The rules of the live watch: judge the loss, gradients, loss scale and memory of each optimizer step. Pure.

A step is judged together with the steps before it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import List, Optional, Sequence, Set, Tuple

from .rules import LOWEST_SCALE, loss_is_lost, scale_cannot_fall
from .step import Step

IDLE_STEPS = 20
IDLE_WARNING = 5
SKIP_WINDOW = 50
SKIP_BUDGET = 10
CONSECUTIVE_SKIPS = 8
ZERO_WARNING = 5
ZERO_STEPS = 20
LAST_SHARE = 0.02
CREEP_WINDOW = 20
CREEP_FACTOR = 1.3
CREEP_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Anomaly:
    """A problem to report at once. An error, which is always based on two signals, ends the training."""

    check: str
    severity: str
    message: str
    step: int


class StepMonitor:
    """Reports each kind of anomaly once, and once more if it gets worse.

    `trained_before` is True if the run resumes from a checkpoint, so that a gradient of 0 may mean that training is
    complete. `planned` is the number of remaining steps, or None if it is unknown.
    """

    def __init__(self, *, trained_before: bool = False, planned: Optional[int] = None) -> None:
        self._planned = planned
        self._had_rate = False
        self._at_zero = 0
        self.applied = 0
        self._reported: Set[Tuple[str, str]] = set()
        self._skips: List[bool] = []
        self._had_gradient = trained_before
        self._idle = 0
        self._bad_losses: List[Step] = []
        self._first_scale: Optional[float] = None
        self._held: List[int] = []
        self._baseline = 0

    def observe(self, step: Step) -> List[Anomaly]:
        """Return the anomalies of this step that were not reported before."""
        self._skips = [*self._skips, not step.applied][-SKIP_WINDOW:]
        self.applied += step.applied
        anomalies = [*self._loss(step), *self._gradient(step), *self._scale(step), *self._memory(step)]
        anomalies += self._rate(step)
        fresh = [anomaly for anomaly in anomalies if (anomaly.check, anomaly.severity) not in self._reported]
        self._reported.update((anomaly.check, anomaly.severity) for anomaly in fresh)
        return fresh

    def _loss(self, step: Step) -> List[Anomaly]:
        if step.loss_is_finite:
            self._bad_losses = []
            return []
        self._bad_losses = [*self._bad_losses, step][-SKIP_WINDOW:]
        recent = self._bad_losses[-CONSECUTIVE_SKIPS:]
        enough = step.nonfinite_weights or len(recent) == CONSECUTIVE_SKIPS
        lost = enough and loss_is_lost(recent, nonfinite_weights=step.nonfinite_weights)
        message = f"the loss is {_first_bad(step.losses)} in step {step.number}"
        without = sum(1 for _ in itertools.takewhile(lambda one: not one.has_gradient, reversed(self._bad_losses)))
        if without > 1:
            message += f", the last of {without} such steps in a row, none of which changed the weights"
        return [(_error if lost else _warning)("loss-finite", message, step)]

    def _gradient(self, step: Step) -> List[Anomaly]:
        norm = step.grad_norm
        if step.prevented:
            message = (
                f"step {step.number} was not applied: its gradient norm is {norm}, and no loss scaler would skip it"
            )
            return [_error("gradient-finite", message, step)]
        if step.nonfinite_weights:
            message = f"trained tensors are not finite after step {step.number}, whose gradient norm was {norm}"
            return [_error("gradient-finite", message, step)]
        if not step.applied or norm is None:
            return []
        if norm == 0.0:
            return self._without_gradient(step)
        self._had_gradient = True
        if not math.isfinite(norm):
            message = f"the gradient norm is {norm} in step {step.number} and the step was applied"
            return [_warning("gradient-finite", message, step)]
        self._idle = 0
        return []

    def _without_gradient(self, step: Step) -> List[Anomaly]:
        """Judge steps without a gradient.

        A loss whose margins are all satisfied gives no gradient either, so this is an error only if no step had a
        gradient.
        """
        self._idle += 1
        check = "loss-zero" if step.loss_is_zero else "gradient-zero"
        message = f"every gradient is 0 in the {self._idle} steps up to step {step.number}"
        if step.loss_is_zero:
            message = f"the loss is exactly 0.0, and {message}"
        if self._idle >= IDLE_STEPS and not self._had_gradient:
            return [_error(check, f"{message}: nothing is being learnt", step)]
        return [_warning(check, message, step)] if self._idle >= IDLE_WARNING else []

    def _scale(self, step: Step) -> List[Anomaly]:
        scale = step.loss_scale
        if scale is None:
            return []
        if self._first_scale is None:
            self._first_scale = scale
        first = self._first_scale
        in_a_row = len(self._skips) >= CONSECUTIVE_SKIPS and all(self._skips[-CONSECUTIVE_SKIPS:])
        if in_a_row and self.applied == 0 and scale_cannot_fall(first, scale):
            message = f"all of the first {len(self._skips)} steps overflowed; the loss scale is {scale:g}"
            return [_error("scaler-trajectory", message, step)]
        anomalies = []
        skips = sum(self._skips)
        if skips > SKIP_BUDGET:
            message = f"{skips} of the last {len(self._skips)} steps were skipped for overflow"
            anomalies.append(_warning("skipped-steps", message, step))
        if scale < min(LOWEST_SCALE, first):
            message = f"the loss scale fell from {first:g} to {scale:g}: gradients overflow even unscaled"
            anomalies.append((_error if in_a_row else _warning)("scale-collapse", message, step))
        return anomalies

    def _rate(self, step: Step) -> List[Anomaly]:
        """Judge learning rates of 0.

        A schedule may reach 0 in the last steps, and for a few steps between its cycles.
        """
        self._had_rate = self._had_rate or bool(step.learning_rate)
        self._at_zero = self._at_zero + 1 if step.learning_rate == 0 else 0
        left = None if self._planned is None else self._planned - step.number
        enough = ZERO_STEPS if left is None else ZERO_WARNING
        near = left is not None and left <= max(ZERO_STEPS, LAST_SHARE * (self._planned or 0))
        if not self._had_rate or self._at_zero < enough or near:
            return []
        of = f", {left} steps before the planned end" if left is not None else ""
        message = f"the learning rate is 0 in the last {self._at_zero} steps{of}: nothing is learnt any more"
        return [_warning("learning-rate", message, step)]

    def _memory(self, step: Step) -> List[Anomaly]:
        self._held = [*self._held, step.held_bytes][-CREEP_WINDOW:]
        if step.number == 2 * CREEP_WINDOW:
            self._baseline = max(self._held)
        gained = min(self._held) - self._baseline
        if not self._baseline or gained <= max(CREEP_BYTES, self._baseline * (CREEP_FACTOR - 1)):
            return []
        since = step.number - 2 * CREEP_WINDOW
        return [_warning("memory-creep", f"memory use has grown by {gained / 2**20:.0f} MiB in {since} steps", step)]


def _first_bad(losses: Sequence[float]) -> float:
    return next(loss for loss in losses if not math.isfinite(loss))


def _error(check: str, message: str, step: Step) -> Anomaly:
    return Anomaly(check, "error", message, step.number)


def _warning(check: str, message: str, step: Step) -> Anomaly:
    return Anomaly(check, "warning", message, step.number)
