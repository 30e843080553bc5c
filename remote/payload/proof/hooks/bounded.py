"""Whether gradients that still contain the loss scale were bounded by a constant, by hooks or after backward."""

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
    """Return the constant that bounds the gradients: many numbers or all norms are exactly that; inf without one."""
    torch = sys.modules["torch"]
    held = [p for p in parameters if p.grad is not None][:TENSORS]
    gradients = [grad for grad in (values_of(p.grad) for p in held) if grad.numel() >= LEAST_NUMBERS]
    sizes = [grad.abs() for grad in gradients]
    largest = [float(size.max()) for size in sizes]
    equal = [int((size == most).sum()) for size, most in zip(sizes, largest)]
    many = [
        most
        for size, most, count in zip(sizes, largest, equal)
        if count >= max(LEAST_EQUAL, SHARE_EQUAL * size.numel())
    ]
    saturated = [most for most in many if most and math.isfinite(most)]
    if len(saturated) > 1 and 2 * len(saturated) >= len(sizes) and min(saturated) == max(saturated):
        return saturated[0]
    norms = [float(torch.linalg.vector_norm(grad, dtype=torch.float32)) for grad in gradients]
    norms = [norm for norm in norms if norm]
    alike = len(norms) >= LEAST_NORMS and max(norms) - min(norms) < SAME_NORM * max(norms)
    return norms[0] if alike else math.inf
