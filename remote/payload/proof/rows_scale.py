"""Rows about mixed precision at work: autocast, the GradScaler, and the course of its loss scale."""

from __future__ import annotations

import math
from typing import Iterator, List

from remote.payload.proof.seen import Row, Seen, error, good, some, warning
from remote.protocol.precision import Mode
from remote.protocol.proof import NotChecked

LOWEST_SCALE = 128.0
A_FEW_SKIPS = 4
_STANDS_IN = ", as torch.cuda.amp and Accelerate do for float16"


def judge(seen: Seen) -> Iterator[Row]:
    """Rows over autocast and the loss scale."""
    yield from _autocast(seen)
    yield from _scaler(seen)
    yield from _trajectory(seen)


def _autocast_states(seen: Seen) -> List[str]:
    return sorted({state for rank in seen.ranks for state in rank.get("modules", {}).get("autocast", {})})


def _has_scaler(seen: Seen) -> bool:
    return any(rank.get("scaler") for rank in seen.ranks)


def _autocast(seen: Seen) -> Iterator[Row]:
    states = _autocast_states(seen)
    wanted = seen.plan.autocast_dtype
    if not states:
        yield NotChecked("autocast", "no layer with parameters was called by a model that could be hooked")
    elif "bfloat16" in states and seen.below_bf16:
        yield error("autocast", "autocast runs in bfloat16 on a card that only emulates it", hint="precision: auto")
    elif wanted and states == ["off"]:
        yield _without_autocast(seen)
    elif wanted and wanted not in states:
        yield warning("autocast", f"autocast runs in {' and '.join(states)}; the plan says {wanted}")
    else:
        yield good("autocast", f"layers ran with autocast {' and '.join(states)}")


def _without_autocast(seen: Seen) -> Row:
    half = any(row["dtype"] == "float16" for row in seen.dtypes("trainable", "frozen"))
    trained_half = any(row["dtype"] == "float16" for row in seen.dtypes("trainable"))
    if seen.first.get("reduce_dtype"):
        return good("autocast", "off: FSDP's mixed precision casts instead")
    if seen.waits_for_card:
        return NotChecked("autocast", f"off on this CPU; the command asks for it on a card only{_STANDS_IN}")
    if half and seen.on_cpu and seen.flag("autocast_off"):
        return warning(
            "autocast",
            "autocast is switched off on this CPU, and weights are float16; off on a card too, it would compute "
            "everything in pure float16",
        )
    if half and seen.masters:
        return warning(
            "autocast",
            "autocast is off: all is computed in pure float16, and float32 copies of the weights are stepped",
        )
    if trained_half:
        return error("autocast", "autocast is off and trained weights are float16: all is computed in pure float16")
    if half:
        return warning("autocast", "autocast is off: what is frozen computes in float16, what is trained in float32")
    return warning("autocast", "autocast is off: the command trains in float32, slower and in twice the memory")


def _scaler(seen: Seen) -> Iterator[Row]:
    states = _autocast_states(seen)
    present = _has_scaler(seen)
    half_trained = any(row["dtype"] == "float16" for row in seen.dtypes("trainable"))
    if not seen.attempts and not present:
        yield NotChecked("scaler", "no optimizer step was tried")
    elif not present and seen.on_cpu and (seen.waits_for_card or seen.flag("scaler_waits_for_card")):
        yield NotChecked("scaler", f"off on this CPU; the command asks for one on a card only{_STANDS_IN}")
    elif ("float16" in states or half_trained) and not present and seen.flag("scaled_by_hand"):
        yield warning("scaler", "the loss is scaled by hand: nothing skips a step that overflows or lowers the scale")
    elif "float16" in states and not present:
        told = error if half_trained or seen.spoiled or _vanished(seen) else warning
        yield told("scaler", "autocast runs in float16 without a GradScaler: small gradients become 0")
    elif half_trained and not present and seen.plan.mode is not Mode.FP16_PURE:
        yield error("scaler", "float16 parameters are trained without a GradScaler: small gradients become 0")
    elif present and "bfloat16" in states:
        yield warning("scaler", "a GradScaler is on although autocast runs in bfloat16, which needs none")
    else:
        yield good("scaler", "a GradScaler is on" if present else "none, and none is needed")


def _vanished(seen: Seen) -> bool:
    """Gradients are there and are 0: of every tensor, or of some although others have larger ones."""
    steps = [states for states in seen.gradients().values() if len(states) > 1]
    return any(set(states) == {"zero"} for states in steps)


def _trajectory(seen: Seen) -> Iterator[Row]:
    """A low scale is no fault where it was low from the start; one that falls is none where steps are applied then."""
    scaled = [row for row in seen.attempts if row["scale"] is not None]
    if not scaled:
        return
    skipped = [row for row in scaled if not row["applied"]]
    first = scaled[0]["scale"]
    last = scaled[-1].get("scale_after", scaled[-1]["scale"])
    course = " ".join(f"{row['scale']:g}" for row in scaled[-8:])
    bad: List[str] = next((row["nonfinite"] for row in skipped if row["nonfinite"]), [])
    if len(skipped) == len(scaled) and len(scaled) > 1:
        lost = last >= first or last < 1.0 or any(not math.isfinite(loss) for row in scaled for loss in row["losses"])
        told = error if lost else warning
        yield told("scaler-trajectory", f"all {len(scaled)} steps overflowed (scale {course})", where=some(bad))
    elif last < LOWEST_SCALE and last < first:
        yield warning("scaler-trajectory", f"the loss scale fell from {first:g} to {last:g}", where=some(bad))
    elif len(skipped) > A_FEW_SKIPS:
        yield warning("scaler-trajectory", f"{len(skipped)} of {len(scaled)} steps were skipped (scale {course})")
    else:
        yield good("scaler-trajectory", f"{len(skipped)} of {len(scaled)} steps skipped, scale {last:g} at the end")
