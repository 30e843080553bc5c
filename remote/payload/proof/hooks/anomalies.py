"""What is wrong with a training, judged step by step: pure, so that a table of steps tests it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import List, Optional, Sequence, Set

EARLY_STEPS = 50
SKIP_WINDOW = 50
SKIP_BUDGET = 10
CONSECUTIVE_SKIPS = 8
LOWEST_SCALE = 1.0
CREEP_WINDOW = 20
CREEP_FACTOR = 1.3
CREEP_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Step:
    """One tried optimizer step: micro-steps' losses, gradient norm (None: skipped), loss scale, rate, bytes held."""

    number: int
    losses: Sequence[float]
    grad_norm: Optional[float]
    scale: Optional[float]
    skipped: bool
    rate: float
    held_bytes: int = 0


@dataclass(frozen=True)
class Anomaly:
    """Something to tell at once; an error means that going on is wasted time."""

    check: str
    severity: str
    message: str
    step: int


class Vigil:
    """Judges each step by those before it; each kind of trouble is told once."""

    def __init__(self) -> None:
        self.applied = 0
        self._told: Set[str] = set()
        self._skips: List[bool] = []
        self._zeros = 0
        self._held: List[int] = []
        self._baseline = 0

    def look(self, step: Step) -> List[Anomaly]:
        """What this step shows that was not told before."""
        self._skips = [*self._skips, step.skipped][-SKIP_WINDOW:]
        self.applied += not step.skipped
        seen = [*self._loss(step), *self._gradient(step), *self._scale(step), *self._memory(step)]
        fresh = [anomaly for anomaly in seen if anomaly.check not in self._told]
        self._told.update(anomaly.check for anomaly in fresh)
        return fresh

    def _loss(self, step: Step) -> List[Anomaly]:
        if any(not math.isfinite(loss) for loss in step.losses):
            return [_error("loss-finite", f"the loss is {_first_bad(step.losses)} in step {step.number}", step)]
        if not step.losses or any(loss != 0.0 for loss in step.losses):
            self._zeros = 0
            return []
        self._zeros += 1
        # A small data set learnt by heart ends near 0 too, but late, and not exactly there at once.
        if step.number <= EARLY_STEPS or self._zeros >= 5:
            message = f"the loss is exactly 0.0 in step {step.number}: nothing is being learnt"
            return [_error("loss-zero", message, step)]
        return []

    def _gradient(self, step: Step) -> List[Anomaly]:
        if step.skipped or step.grad_norm is None:
            return []
        if not math.isfinite(step.grad_norm):
            message = f"the gradient norm is {step.grad_norm} in step {step.number} and the step was applied"
            return [_error("gradient-finite", message, step)]
        if step.grad_norm == 0.0 and step.number <= EARLY_STEPS:
            return [_error("gradient-zero", f"every gradient is 0 in step {step.number}", step)]
        return []

    def _scale(self, step: Step) -> List[Anomaly]:
        told = []
        skips = sum(self._skips)
        if len(self._skips) >= CONSECUTIVE_SKIPS and all(self._skips[-CONSECUTIVE_SKIPS:]) and self.applied == 0:
            message = f"all of the first {len(self._skips)} steps overflowed; the scale is {step.scale:g} now"
            told.append(_error("scaler-trajectory", message, step))
        elif skips > SKIP_BUDGET:
            message = f"{skips} of the last {len(self._skips)} steps were skipped for overflow"
            told.append(_warning("skipped-steps", message, step))
        if step.scale is not None and step.scale < LOWEST_SCALE:
            message = f"the loss scale fell to {step.scale:g}: gradients overflow unscaled"
            told.append(_error("scale-collapse", message, step))
        return told

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
