"""Build the record of an attempted step from its measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional

from .step import Step
from .step_log import Clip, last_clip
from .tensors import learning_rate, nonfinite_gradients, parameters_of, rate_in_schedule, read_losses
from .trained import Trained


@dataclass(frozen=True)
class MeasuredStep:
    """The measurements of an attempted step.

    `norm` is the norm of the gradients that the optimizer used, or None if it used no gradients.
    """

    trained: Trained
    optimizer: Any
    scale: Optional[float]
    skipped: bool
    losses: List[Any]
    clips: List[Clip]
    norm: Optional[float]


def measure_step(measured: MeasuredStep, number: int, seconds: float) -> Step:
    """Return the record of this step.

    Copies the losses from the device and, if the step was skipped, also reads the gradients.
    """
    optimizer, trained = measured.optimizer, measured.trained
    clip = last_clip(measured.clips, parameters_of(optimizer))
    norm, limit = clip or (None, None)
    applied_norm = None if measured.skipped else measured.norm
    rate = learning_rate(optimizer)
    return Step(
        number=number,
        applied=not measured.skipped,
        losses=read_losses(measured.losses),
        grad_norm=applied_norm if norm is None else norm,
        applied_norm=applied_norm,
        loss_scale=measured.scale,
        # If weights change at a learning rate of 0, the optimizer uses another rate.
        learning_rate=None if rate == 0 and trained.has_moved(optimizer) else rate,
        scheduled=rate_in_schedule(optimizer),
        clipped=clip is not None,
        clip_limit=limit,
        nonfinite_gradients=nonfinite_gradients(trained.named(optimizer)) if measured.skipped else (),
        seconds=seconds,
    )
