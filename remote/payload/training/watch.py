"""Training that is worth nothing is found while it runs: a loss of zero or NaN, an adapter that gets no gradient."""

from __future__ import annotations

import math
from typing import Any, List, Set

import torch
from transformers import TrainerCallback

from remote.payload.training.base_model import trainable_parameters
from remote.payload.training.failure import TrainingFailed

PATIENCE = 5
"""Optimizer steps by which every adapter tensor must have had a gradient: lora_A has none until lora_B has moved."""


class Watch(TrainerCallback):  # type: ignore[misc]
    """Raises TrainingFailed before the optimizer step that would spoil the adapter."""

    def __init__(self) -> None:
        self.trainer: Any = None
        self.untouched: Set[str] = set()
        self.steps = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        self.untouched = {name for name, _ in trainable_parameters(told["model"])}
        self.steps = 0

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        judge_loss(float(torch.stack(self.trainer.step_losses).sum()), state.global_step + 1)
        self.steps += 1
        if self.untouched and self.steps <= PATIENCE:
            reached = names_with_gradient(told["model"])
            self.untouched -= set(reached)
            judge_gradients(sorted(self.untouched), bool(reached), self.steps)


def judge_loss(loss: float, step: int) -> None:
    """The loss of an optimizer step is a number that training can give. Raises TrainingFailed."""
    if not math.isfinite(loss):
        raise TrainingFailed(
            "loss-finite",
            f"the loss of step {step} is {loss}; nothing that follows could repair the adapter",
            hint="pipeline verify",
        )
    if loss == 0.0:
        raise TrainingFailed(
            "loss-zero",
            f"the loss of step {step} is exactly 0.0: NaN that was filtered away, or no label at all",
            hint="pipeline verify",
        )


def judge_gradients(untouched: List[str], any_reached: bool, steps: int) -> None:
    """The adapter is being trained. Raises TrainingFailed."""
    if not any_reached:
        raise TrainingFailed("gradient-zero", "no adapter tensor got a gradient", hint="lora.targets")
    if untouched and steps >= PATIENCE:
        shown = ", ".join(untouched[:3]) + (", ..." if len(untouched) > 3 else "")
        raise TrainingFailed(
            "adapter-gradient",
            f"{len(untouched)} adapter tensors got no gradient in {steps} optimizer steps: {shown}",
            hint="lora.targets",
        )


def names_with_gradient(model: Any) -> List[str]:
    """The trainable parameters whose gradient is there and not all zero; one synchronisation with the device."""
    found = [(name, parameter.grad) for name, parameter in trainable_parameters(model) if parameter.grad is not None]
    if not found:
        return []
    # Written so that NaN, which an overflow under a loss scale leaves, counts as a gradient.
    some = torch.stack([torch.logical_not(gradient.abs().amax() == 0) for _, gradient in found]).tolist()
    return [name for (name, _), there in zip(found, some) if there]
