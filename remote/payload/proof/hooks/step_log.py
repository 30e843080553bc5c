"""The optimizer steps that a proof has recorded, and whether they suffice to judge the training."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Iterable, List, Optional, Sequence, Set, Tuple

from .rules import scale_cannot_fall
from .step import Step

MAX_STEPS_FACTOR = 5

Clip = Tuple[Set[int], Optional[float], float]


class StepLog:
    """Records steps until `wanted` steps were applied at a learning rate other than 0, or after `max_attempts`."""

    def __init__(self, wanted: int, max_attempts: int) -> None:
        self.wanted = wanted
        self.max_attempts = max_attempts
        self.steps: List[Step] = []

    def may_stop(self, *, idle: bool, put_back: int) -> bool:
        """Return True if recording may stop.

        `idle`: no tensor had a gradient. `put_back`: how often a step's changes of the weights were undone.

        Some symptoms of a fault also occur in healthy runs, so additional steps are recorded if such a symptom occurs.
        One more step is recorded if the loss did not change, or if changes were undone once. Up to `max_attempts` steps
        are recorded if no tensor has a gradient: a loss with a margin has no gradient while all margins are satisfied.
        """
        required = self.max_attempts
        if not idle:
            losses = {loss for step in self.steps for loss in step.losses}
            required = self.wanted + (len(losses) == 1 or put_back == 1)
        attempts = sum(not self._scale_falls(at) for at in range(len(self.steps)))
        counted = sum(step.is_counted for step in self.steps)
        return (
            counted >= required
            or attempts >= self.max_attempts
            or len(self.steps) >= MAX_STEPS_FACTOR * self.max_attempts
        )

    def note_scale(self, scale: float) -> None:
        """Record the loss scale after the newest step."""
        if self.steps:
            self.steps[-1] = dataclasses.replace(self.steps[-1], loss_scale_after=scale)

    def append_newest(self, path: str) -> None:
        """Append the newest step to the file `path` as a line of JSON."""
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(self.steps[-1])) + "\n")

    def _scale_falls(self, at: int) -> bool:
        """Return True if the loss scaler skipped the step and its scale is still falling towards a usable value."""
        step = self.steps[at]
        if step.applied or step.loss_scale is None or not step.loss_is_finite:
            return False
        before = math.inf if at == 0 else self.steps[at - 1].loss_scale or 0.0
        return not scale_cannot_fall(before, step.loss_scale)


def last_clip(clips: Sequence[Clip], parameters: Iterable[Any]) -> Optional[Tuple[Optional[float], float]]:
    """Return norm and limit of the last clipping of any of these parameters, or None if no clipping was recorded."""
    held = {id(parameter) for parameter in parameters}
    return next(((norm, limit) for ids, norm, limit in reversed(clips) if not ids.isdisjoint(held)), None)
