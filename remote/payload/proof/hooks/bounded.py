"""Detect gradients that contain the loss scale and are limited by a constant, in hooks or in code after backward."""

from __future__ import annotations

import math
import sys
from typing import Any, List

from .tensors import values_of

TENSORS = 64
LEAST_NUMBERS = 16
LEAST_EQUAL = 4
SHARE_EQUAL = 0.02
SAME_NORM = 1e-3
LEAST_NORMS = 3


def has_hooks(parameters: List[Any]) -> bool:
    """Return True if Python functions may change the gradient of one of these parameters."""
    names = ("_backward_hooks", "_post_accumulate_grad_hooks")
    return any(getattr(parameter, name, None) for parameter in parameters for name in names)


def bound_of(parameters: List[Any]) -> float:
    """Return the constant that limits the gradients, or inf if no constant does.

    Many values of the gradients, or all of their norms, are equal to the constant.
    """
    with_gradient = [p for p in parameters if p.grad is not None][:TENSORS]
    gradients = [grad for grad in (values_of(p.grad) for p in with_gradient) if grad.numel() >= LEAST_NUMBERS]
    return min(_saturation(gradients), _common_norm(gradients))


def _saturation(gradients: List[Any]) -> float:
    """Return the largest value of the gradients if it is equal and frequent in most tensors, otherwise inf."""
    largest = []
    for size in (gradient.abs() for gradient in gradients):
        most = size.max()
        often = int((size == most).sum()) >= max(LEAST_EQUAL, SHARE_EQUAL * size.numel())
        if often and most and math.isfinite(most):
            largest.append(float(most))
    enough = len(largest) > 1 and 2 * len(largest) >= len(gradients)
    return largest[0] if enough and min(largest) == max(largest) else math.inf


def _common_norm(gradients: List[Any]) -> float:
    torch = sys.modules["torch"]
    norms = [float(torch.linalg.vector_norm(gradient, dtype=torch.float32)) for gradient in gradients]
    norms = [norm for norm in norms if norm]
    alike = len(norms) >= LEAST_NORMS and max(norms) - min(norms) < SAME_NORM * max(norms)
    return norms[0] if alike else math.inf
