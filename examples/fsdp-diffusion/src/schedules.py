"""Learning rate schedules."""

import math

import torch


def make_schedule(name: str, optimizer: torch.optim.Optimizer, steps: int) -> torch.optim.lr_scheduler.LRScheduler:
    """Return a schedule: `cosine` falls to a tenth of the rate, `step` halves it after each third of the steps."""
    courses = {
        "cosine": lambda step: 0.1 + 0.45 * (1 + math.cos(math.pi * min(step, steps) / steps)),
        "step": lambda step: 0.5 ** (3 * step // steps),
    }
    return torch.optim.lr_scheduler.LambdaLR(optimizer, courses[name])
