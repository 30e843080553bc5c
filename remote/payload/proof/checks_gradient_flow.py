"""Checks of the order of operations on gradients: backward, unscale, clip, step, clear."""

from __future__ import annotations

import math
from typing import Iterator, List, Optional

from remote.payload.proof.evidence import Evidence, Result, error, passed, warning
from remote.payload.proof.hooks.report import Misuse, RankReport

SAME_NORM = 1e-3
REPLICATED = "DistributedDataParallel"
ONLY_IF_APPLIED = (
    "scale_before = scaler.get_scale() before scaler.update(), then `if scaler.get_scale() >= scale_before:` around "
    "scheduler.step(); with Accelerate, `if not accelerator.optimizer_step_was_skipped:`"
)


def judge(evidence: Evidence) -> Iterator[Result]:
    results = (
        _clip_scale(evidence),
        _clipping(evidence),
        _scale(evidence),
        _cleared(evidence),
        _same_on_all_ranks(evidence),
    )
    yield from (result for result in results if result is not None)
    if evidence.flags.scheduled_after_skip:
        message = "the learning rate schedule advanced although the optimizer step was skipped"
        yield warning("scheduler-skipped-step", message, where=evidence.flags.scheduled_at, hint=ONLY_IF_APPLIED)


def _cleared(evidence: Evidence) -> Optional[Result]:
    if Misuse.NOT_CLEARED in evidence.misuses:
        return error(
            "gradient-cleared",
            "gradients of the previous step are still present when the next backward pass begins",
            hint="optimizer.zero_grad() after each step",
        )
    counted = len(evidence.counted)
    if counted and min(rank.gradient_flow.discarded for rank in evidence.ranks) >= counted:
        return warning(
            "gradient-cleared",
            "gradients are cleared between backward and step, so all but the last micro-batch of each step are lost",
            hint="optimizer.zero_grad() after each step, and nowhere else",
        )
    return None


def _same_on_all_ranks(evidence: Evidence) -> Optional[Result]:
    """Judge whether all ranks apply the same gradients, as DistributedDataParallel ensures outside of no_sync.

    Return None if fewer than two ranks use DistributedDataParallel.
    """
    ranks = [rank for rank in evidence.ranks if REPLICATED in rank.model.roots]
    if len(ranks) < 2:
        return None
    norms = next(filter(_differ, _norms_by_step(ranks)), None)
    if norms is None:
        return passed("gradient-reduced", f"{len(ranks)} ranks apply the same gradients")
    # Ranks that step independently and then average their weights do so by design.
    differ = len({rank.trained.weights_sum for rank in ranks}) > 1
    result = "so the ranks train different models" if differ else "but the weights are the same on all ranks"
    listed = ", ".join(f"{norm:.3g}" for norm in norms)
    return (error if differ else warning)(
        "gradient-reduced",
        f"the ranks apply different gradients, {result}: norms {listed}",
        hint="no_sync() around all but the last backward of a step",
    )


def _norms_by_step(ranks: List[RankReport]) -> Iterator[List[float]]:
    for steps in zip(*(rank.steps for rank in ranks)):
        yield [step.grad_norm for step in steps if step.grad_norm is not None]


def _differ(norms: List[float]) -> bool:
    return bool(norms) and max(norms) - min(norms) > SAME_NORM * max(norms)


def _clip_scale(evidence: Evidence) -> Optional[Result]:
    hint = "scaler.unscale_(optimizer) before clipping"
    scaled = "gradients are clipped while they still contain the loss scale"
    if Misuse.CLIPPED_SCALED in evidence.misuses:
        return error("clip-before-unscale", f"{scaled}, which makes them far too small", hint=hint)
    if Misuse.BOUNDED_SCALED in evidence.misuses:
        message = "a hook, or code after backward, bounds gradients by a constant while they contain the loss scale"
        return error("clip-before-unscale", f"{message}, which makes them far too small", hint=hint)
    if Misuse.CLIPPED_WITH_SCALE in evidence.misuses:
        return warning(
            "clip-before-unscale",
            f"{scaled}, which is right only if the limit is multiplied by the scale too",
            hint=hint,
        )
    if evidence.has_scaler and any(step.clipped for step in evidence.steps):
        return passed("clip-before-unscale", "clipped gradients do not contain the loss scale")
    return None


def _clipping(evidence: Evidence) -> Optional[Result]:
    if evidence.clipped_away:
        return _clipped_away(evidence)
    if Misuse.CLIPPED_LATE in evidence.misuses:
        return warning(
            "gradient-clipping",
            "gradients are clipped after the step that used them, which has no effect",
            hint="clip between backward and step",
        )
    if not evidence.steps:
        return None
    clipped = any(step.clipped for step in evidence.steps)
    return passed("gradient-clipping", "gradients are clipped" if clipped else "no clipping was recorded")


def _clipped_away(evidence: Evidence) -> Result:
    """Judge clipping that sets all gradients to 0 or NaN, because the limit is 0 or the norm is not finite."""
    clips = [(step.grad_norm, step.clip_limit or 0.0) for step in evidence.steps if step.clipped and step.grad_norm]
    overflowed = next((norm for norm, _ in clips if not math.isfinite(norm)), None)
    if overflowed is not None:
        return error(
            "gradient-clipping",
            f"the norm of the gradients is {overflowed}, and clipping by it sets all of them to 0",
            hint="clip gradients in float32, after unscale_",
        )
    norm, limit = clips[0]
    return error(
        "gradient-clipping",
        f"gradients with a norm of {norm:.3g} are clipped to {limit:g}, which sets them to 0: "
        "a maximum norm of 0 does not disable clipping",
        hint="remove the call, or pass a norm above 0",
    )


def _scale(evidence: Evidence) -> Optional[Result]:
    """Judge whether the scaler unscales the gradients of scaled losses only.

    Return None if no misuse was found and no gradients were unscaled.
    """
    scale = next((step.loss_scale for step in evidence.steps if step.loss_scale), None)
    times = f"{scale:g} times" if scale else "many times"
    messages = {
        Misuse.APPLIED_SCALED: (
            "optimizer.step() applies gradients that still contain the loss scale, so the step is far too large",
            "scaler.step(optimizer); scaler.update()",
        ),
        Misuse.UNSCALED_TWICE: (
            "a micro-batch adds scaled gradients to gradients that the scaler has already divided by its scale, "
            "so no single division is right for their sum",
            "scaler.unscale_(optimizer) once, after the last micro-batch of a step",
        ),
        Misuse.PARTLY_SCALED: (
            f"only some backward passes of a step begin at a scaled loss; the other gradients are {times} smaller",
            "scaler.scale(loss).backward() for every micro-batch",
        ),
        Misuse.UNSCALED_PLAIN: (
            f"the scaler divides gradients of a loss that it never scaled, which makes them {times} too small",
            "scaler.scale(loss).backward()",
        ),
    }
    for misuse, (message, hint) in messages.items():
        if misuse in evidence.misuses:
            return error("gradient-scale", message, hint=hint)
    if Misuse.MANUAL_SCALE_KEPT in evidence.misuses:
        return warning(
            "gradient-scale",
            "the loss is multiplied by a factor, and its gradients are not divided by it before they are used",
            hint="divide every .grad before clipping, or leave both to a GradScaler",
        )
    if any(rank.gradient_flow.unscaled for rank in evidence.ranks):
        return passed("gradient-scale", "gradients are divided by the scale that they contain")
    return None
