"""The record of one attempted optimizer step, shared by the proof, the live watch and their judges."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Tuple


@dataclass(frozen=True)
class Step:
    """One attempted optimizer step. `applied` is False if the loss scaler skipped it.

    `losses` has one value for each micro-batch, with the script's own factors such as 1 / accumulation steps.
    `applied_norm` is the norm of the gradients that the optimizer used, or None if it was not measured. `grad_norm` is
    the norm that clipping measured; without clipping, it equals `applied_norm`. `learning_rate` is None if it cannot be
    read; `scheduled` means that a scheduler sets it. `nonfinite_gradients` are the names of tensors whose gradients
    made the scaler skip the step. `nonfinite_weights` is True if trained tensors became non-finite in the step. If
    `prevented` is True, the step was not made, because it would have made trained tensors non-finite.
    """

    number: int
    applied: bool
    losses: Tuple[float, ...] = ()
    grad_norm: Optional[float] = None
    applied_norm: Optional[float] = None
    loss_scale: Optional[float] = None
    loss_scale_after: Optional[float] = None
    learning_rate: Optional[float] = None
    scheduled: bool = False
    clipped: bool = False
    clip_limit: Optional[float] = None
    nonfinite_gradients: Tuple[str, ...] = ()
    nonfinite_weights: bool = False
    prevented: bool = False
    seconds: float = 0.0
    held_bytes: int = 0

    @property
    def is_counted(self) -> bool:
        """True if the step was applied at a learning rate other than 0. An unknown rate counts as other than 0."""
        return self.applied and self.learning_rate != 0

    @property
    def loss_is_finite(self) -> bool:
        return all(math.isfinite(loss) for loss in self.losses)

    @property
    def loss_is_zero(self) -> bool:
        return bool(self.losses) and not any(self.losses)

    @property
    def has_gradient(self) -> bool:
        """True if the step was applied with a finite gradient norm above 0, or with an unknown norm."""
        norm = self.applied_norm
        return self.applied and (norm is None or 0.0 < norm < math.inf)
