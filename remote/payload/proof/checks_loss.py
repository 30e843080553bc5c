"""Checks of the loss: its values, its dtype, and whether it changes."""

from __future__ import annotations

import math
from typing import Iterator, List

from remote.payload.proof.evidence import Evidence, Result, error, passed, warning
from remote.payload.proof.hooks.step import Step
from remote.protocol.proof import NotChecked

FLOAT16_MAX = 65504.0
STEPS_TO_COMPARE = 3


def judge(evidence: Evidence) -> Iterator[Result]:
    losses = evidence.losses
    if not losses:
        for check in ("loss-finite", "loss-dtype"):
            yield NotChecked(check, "no backward pass from a scalar loss was recorded")
        return
    yield _finite(evidence, losses)
    steps = [step for step in evidence.steps if step.losses]
    if steps:
        yield _zero(evidence, steps)
        yield _constant(evidence, steps)
    yield _dtype(evidence)


def _finite(evidence: Evidence, losses: List[float]) -> Result:
    bad = [loss for loss in losses if not math.isfinite(loss)]
    if not bad:
        return passed("loss-finite", f"{len(losses)} losses, {losses[0]:.4g} first and {losses[-1]:.4g} last")
    message = f"{len(bad)} of {len(losses)} losses are {bad[0]}"
    if evidence.loss_lost:
        return error("loss-finite", message)
    return warning("loss-finite", f"{message}; the weights are finite, and steps were applied")


def _zero(evidence: Evidence, steps: List[Step]) -> Result:
    """Judge losses of 0.0.

    A loss of 0.0 alone is not a fault: GRPO starts at 0, and a hinge loss is 0 once all margins are satisfied.
    """
    zeros = sum(step.loss_is_zero for step in steps)
    if not zeros:
        return passed("loss-zero", "no step has a loss of exactly 0.0")
    message = f"the loss is exactly 0.0 in {zeros} of {len(steps)} steps"
    if not evidence.gradients:
        return warning("loss-zero", f"{message}; the gradients were not measured")
    if zeros == len(steps) and evidence.idle:
        return error("loss-zero", f"{message}, and no trained tensor gets a gradient: nothing is being learnt")
    return passed("loss-zero", f"{message}; trained tensors get gradients")


def _constant(evidence: Evidence, steps: List[Step]) -> Result:
    """Judge a constant loss. A loss may change by less than its resolution, as in DPO at a learning rate of 5e-7."""
    losses = [loss for step in steps for loss in step.losses]
    first = losses[0]
    if len(set(losses)) > 1:
        return passed("loss-constant", "the loss changes")
    if len(steps) < STEPS_TO_COMPARE or not math.isfinite(first) or first == 0.0:
        return NotChecked("loss-constant", "too few losses other than 0.0 and NaN to compare")
    message = f"the loss is {first:.6g} in every one of {len(steps)} steps"
    if evidence.idle:
        return error("loss-constant", f"{message}, and no trained tensor gets a gradient")
    moved = evidence.moved
    if moved and not any(moved.values()):
        return error("loss-constant", f"{message}, and no trained tensor changes")
    return warning("loss-constant", f"{message}, although trained tensors change")


def _dtype(evidence: Evidence) -> Result:
    dtypes = {name for rank in evidence.ranks for name in rank.loss_dtypes}
    half_entropy = any(row.dtype == "torch.float16" and row.autocast != "float16" for row in evidence.entropies)
    if "float16" not in dtypes and not half_entropy:
        return passed("loss-dtype", f"the loss is {' and '.join(sorted(dtypes))}")
    if evidence.autocast_only_on_card:
        return NotChecked("loss-dtype", "autocast, which computes most losses in float32, is enabled only on a card")
    which = "the loss is float16" if "float16" in dtypes else "cross entropy is computed in float16"
    if not evidence.counted and (evidence.loss_lost or _overflows_when_scaled(evidence)):
        return error("loss-dtype", f"{which} and overflows, so no step is applied", hint="loss.float()")
    return warning("loss-dtype", f"{which}: with a loss scale of 65536, a loss of 1.0 overflows", hint="loss.float()")


def _overflows_when_scaled(evidence: Evidence) -> bool:
    scaled = [(step.loss_scale, loss) for step in evidence.steps for loss in step.losses]
    return any(scale is not None and abs(loss) * scale > FLOAT16_MAX for scale, loss in scaled)
