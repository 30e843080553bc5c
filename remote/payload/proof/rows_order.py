"""Rows about what is done to gradients between backward and step, and in which order."""

from __future__ import annotations

import math
from typing import Iterator

from remote.payload.proof.seen import Row, Seen, error, good, warning

SAME_NORM = 1e-3


def judge(seen: Seen) -> Iterator[Row]:
    """Rows over clipping, the loss scale, clearing, reduction and schedules."""
    yield from _clipping(seen)
    yield from _scale_kept(seen)
    if seen.misused("kept"):
        yield error(
            "gradient-cleared",
            "gradients of the step before are still there when the next backward begins",
            hint="optimizer.zero_grad() after each step",
        )
    elif seen.effective and min((rank.get("scaling", {}).get("thrown", 0) for rank in seen.ranks), default=0) >= len(
        seen.effective
    ):
        yield warning(
            "gradient-cleared",
            "gradients are cleared between backward and step, so all but the last micro-step of each step are lost",
            hint="optimizer.zero_grad() after each step, and nowhere else",
        )
    yield from _reduced(seen)
    if seen.flag("scheduled_after_skip"):
        yield warning(
            "scheduler-skipped-step", "the learning rate schedule went on although the optimizer step was skipped"
        )


def _reduced(seen: Seen) -> Iterator[Row]:
    """DistributedDataParallel gives every rank the same gradients, in a backward pass that is not under no_sync."""
    replicated = [
        rank for rank in seen.ranks if any(one["class"] == "DistributedDataParallel" for one in rank.get("roots", []))
    ]
    if len(replicated) < 2:
        return
    for rows in zip(*(rank["attempts"] for rank in replicated)):
        norms = [row["grad_norm"] for row in rows if row["grad_norm"] is not None]
        if norms and max(norms) - min(norms) > SAME_NORM * max(norms):
            # Ranks that average their weights after steps of their own do so by design.
            differ = len({rank.get("weights_sum") for rank in replicated}) > 1
            told = error if differ else warning
            yield told(
                "gradient-reduced",
                "each rank applies gradients of its own"
                + (", so the ranks train different models" if differ else "; the weights are the same on all")
                + ": norms "
                + ", ".join(f"{norm:.3g}" for norm in norms),
                hint="no_sync() around all but the last backward of a step",
            )
            return
    yield good("gradient-reduced", f"{len(replicated)} ranks apply the same gradients")


def _clipping(seen: Seen) -> Iterator[Row]:
    clipped = any(row["clipped"] for row in seen.attempts)
    if seen.misused("clipped_scaled"):
        yield error(
            "clip-before-unscale",
            "gradients are clipped while they still carry the loss scale, so nearly all of each is cut off",
            hint="scaler.unscale_(optimizer) before clipping",
        )
    elif seen.misused("clipped_with_scale"):
        yield warning(
            "clip-before-unscale",
            "gradients are clipped while they still carry the loss scale: right only where the limit carries it too",
            hint="scaler.unscale_(optimizer) before clipping",
        )
    elif clipped and any(rank.get("scaler") for rank in seen.ranks):
        yield good("clip-before-unscale", "what was clipped did not carry the loss scale")
    if seen.clipped_away:
        yield _clipped_away(seen)
    elif seen.misused("clipped_late"):
        yield warning(
            "gradient-clipping",
            "gradients are clipped after the step that used them, which clips nothing",
            hint="clip between backward and step",
        )
    elif seen.attempts:
        yield good("gradient-clipping", "gradients are clipped" if clipped else "no clipping was seen")


def _clipped_away(seen: Seen) -> Row:
    """Clipping divides by the norm: a limit of 0 leaves nothing, and a norm that is not finite leaves 0 or NaN."""
    rows = [row for row in seen.attempts if row["clipped"] and row["grad_norm"]]
    endless = [row for row in rows if not math.isfinite(row["grad_norm"])]
    if endless:
        return error(
            "gradient-clipping",
            f"the norm of the gradients is {endless[0]['grad_norm']}, and clipping by it leaves 0 of all of them",
            hint="clip gradients in float32, after unscale_",
        )
    return error(
        "gradient-clipping",
        f"gradients of a norm of {rows[0]['grad_norm']:.3g} are clipped to {rows[0]['clip_limit']:g}, which leaves "
        "nothing: a largest norm of 0 does not switch clipping off",
        hint="leave the call out, or give it a norm above 0",
    )


def _scale_kept(seen: Seen) -> Iterator[Row]:
    """What backward multiplied by the loss scale, the scaler divides by it: all of it, and nothing else."""
    scales = [row["scale"] for row in seen.attempts if row["scale"]]
    times = f"{scales[0]:g} times" if scales else "as many times as the scale says"
    if seen.misused("applied_scaled"):
        yield error(
            "gradient-scale",
            "optimizer.step() applies gradients that still carry the loss scale, far too large",
            hint="scaler.step(optimizer); scaler.update()",
        )
    elif seen.misused("partly_scaled"):
        yield error(
            "gradient-scale",
            f"some backward passes of one step begin at a scaled loss, and some do not: those weigh {times} less",
            hint="scaler.scale(loss).backward() in every micro-step",
        )
    elif seen.misused("divided_plain"):
        yield error(
            "gradient-scale",
            f"the scaler divides gradients of a loss that it never scaled: they are {times} too small",
            hint="scaler.scale(loss).backward()",
        )
    elif seen.misused("by_hand_kept"):
        yield warning(
            "gradient-scale",
            "the loss is multiplied by hand, and nothing divides its gradients by as much before they are used",
            hint="divide every .grad before clipping, or leave both to a GradScaler",
        )
    elif any(rank.get("scaling", {}).get("right") for rank in seen.ranks):
        yield good("gradient-scale", "gradients are divided by the scale they carry")
