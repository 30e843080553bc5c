"""Checks of mixed precision: autocast, the GradScaler, and the changes of its loss scale."""

from __future__ import annotations

from typing import Iterator, List

from remote.payload.proof.evidence import Evidence, Result, error, passed, some, warning
from remote.payload.proof.hooks.rules import scale_cannot_fall
from remote.payload.proof.hooks.step import Step
from remote.payload.proof.provenance import explain, remedy
from remote.protocol.precision import Mode
from remote.protocol.proof import NotChecked

LOWEST_SCALE = 128.0
A_FEW_SKIPS = 4
NO_SCALER = "add torch.amp.GradScaler to the training loop, or fp16=True to the trainer's arguments"
AUTOCAST_ORIGINS = ("trainer", "accelerator", "autocast")
_ONLY_ON_CARD = ", as torch.cuda.amp and Accelerate do for float16"


def judge(evidence: Evidence) -> Iterator[Result]:
    yield _autocast(evidence)
    yield _scaler(evidence)
    yield from _cache(evidence)
    scaled = [step for step in evidence.steps if step.loss_scale is not None]
    if scaled:
        yield _trajectory(scaled)


def _autocast_states(evidence: Evidence) -> List[str]:
    return sorted({state for rank in evidence.ranks for state in rank.modules.autocast})


def _autocast(evidence: Evidence) -> Result:
    states = _autocast_states(evidence)
    planned = evidence.plan.autocast_dtype
    if not states:
        return NotChecked("autocast", "the hooks recorded no call of a layer with parameters")
    if "bfloat16" in states and evidence.float16_only_on_card:
        return NotChecked("autocast", "bfloat16 on this CPU; the command uses float16 only on a card")
    if "bfloat16" in states and evidence.below_bf16:
        message = "autocast runs in bfloat16 on a card that only emulates it" + explain(
            evidence, AUTOCAST_ORIGINS, states
        )
        otherwise = "precision: auto" if planned == "bfloat16" else "pipeline fix --only bf16-to-fp16"
        return error("autocast", message, hint=remedy(evidence, AUTOCAST_ORIGINS, otherwise))
    if planned and states == ["off"]:
        return _without_autocast(evidence)
    if planned and planned not in states:
        return warning("autocast", f"autocast runs in {' and '.join(states)}; the plan selects {planned}")
    return passed("autocast", f"layers ran with autocast {' and '.join(states)}")


def _cache(evidence: Evidence) -> Iterator[Result]:
    """Judge autocast's cache of cast weights, which is outdated if the optimizer steps inside the autocast block."""
    half = [state for state in _autocast_states(evidence) if state != "off"]
    wide = any(row.dtype == "float32" for row in evidence.dtypes("trainable"))
    if evidence.flags.step_in_autocast_cache and half and wide:
        message = "the optimizer steps inside of autocast, whose cache keeps the weights from before the step"
        hint = "leave autocast before the optimizer step, or torch.autocast(..., cache_enabled=False)"
        yield error("autocast-cache", f"{message}: later forward passes do not use the trained weights", hint=hint)


def _without_autocast(evidence: Evidence) -> Result:
    if evidence.first.model.reduce_dtype:
        return passed("autocast", "off: FSDP's mixed precision casts instead")
    if evidence.autocast_only_on_card:
        return NotChecked("autocast", f"off on this CPU; the command enables it only on a card{_ONLY_ON_CARD}")
    if not evidence.has_float16("trainable", "frozen"):
        return warning(
            "autocast", "autocast is off: the command trains in float32, which is slower and needs twice the memory"
        )
    if evidence.on_cpu and evidence.flags.autocast_off:
        message = (
            "autocast is switched off on this CPU, and weights are float16; if it is off on a card too, "
            "everything is computed in pure float16"
        )
        return warning("autocast", message)
    if evidence.master_weights:
        message = "autocast is off: everything is computed in float16, and the optimizer updates float32 copies"
        return warning("autocast", message)
    if evidence.has_float16("trainable"):
        return error(
            "autocast", "autocast is off and trained weights are float16: everything is computed in pure float16"
        )
    return warning("autocast", "autocast is off: frozen parts compute in float16, trained parts in float32")


def _scaler(evidence: Evidence) -> Result:
    if evidence.has_scaler:
        if "bfloat16" in _autocast_states(evidence) and not evidence.float16_only_on_card:
            return warning("scaler", "a GradScaler is on although autocast runs in bfloat16, which needs no loss scale")
        own = evidence.has_runtime and any("scale the loss" in line for line in evidence.runtime_lines)
        return passed("scaler", "the loss is scaled by `fixers: {runtime: auto}`" if own else "a GradScaler is on")
    if not evidence.steps:
        return NotChecked("scaler", "no optimizer step was attempted")
    if evidence.scaler_only_on_card:
        return NotChecked("scaler", f"off on this CPU; the command enables one only on a card{_ONLY_ON_CARD}")
    return _without_scaler(evidence)


def _without_scaler(evidence: Evidence) -> Result:
    half_autocast = "float16" in _autocast_states(evidence)
    half_trained = evidence.has_float16("trainable")
    if (half_autocast or half_trained) and evidence.flags.scaled_by_hand:
        return warning(
            "scaler", "the loss is scaled by hand: overflowing steps are not skipped, and the scale is never lowered"
        )
    if half_autocast:
        grade = error if half_trained or evidence.nonfinite_weights or _vanished(evidence) else warning
        return grade(
            "scaler", "autocast runs in float16 without a GradScaler: small gradients become 0", hint=NO_SCALER
        )
    if half_trained and evidence.plan.mode is not Mode.FP16_PURE:
        return error(
            "scaler", "float16 parameters are trained without a GradScaler: small gradients become 0", hint=NO_SCALER
        )
    return passed("scaler", "the command uses no GradScaler and needs none")


def _vanished(evidence: Evidence) -> bool:
    """Return True if some tensor has gradients that are 0 in each of several steps."""
    return any(len(states) > 1 and set(states) == {"zero"} for states in evidence.gradients.values())


def _trajectory(scaled: List[Step]) -> Result:
    """Judge the loss scale of these steps. A scale that was low from the start is no fault."""
    check = "scaler-trajectory"
    scales = [step.loss_scale for step in scaled if step.loss_scale is not None]
    skipped = [step for step in scaled if not step.applied]
    first, after = scales[0], scaled[-1].loss_scale_after
    last = scales[-1] if after is None else after
    counts, course = f"{len(skipped)} of {len(scaled)} steps", " ".join(f"{scale:g}" for scale in scales[-8:])
    bad = next((some(step.nonfinite_gradients) for step in skipped if step.nonfinite_gradients), "")
    if len(skipped) == len(scaled) > 1:
        grade = error if scale_cannot_fall(first, last) or not _all_finite(scaled) else warning
        return grade(check, f"all {len(scaled)} steps overflowed (scale {course})", where=bad)
    if last < min(LOWEST_SCALE, first):
        return warning(check, f"the loss scale fell from {first:g} to {last:g}", where=bad)
    if len(skipped) > A_FEW_SKIPS:
        return warning(check, f"{counts} were skipped (scale {course})")
    return passed(check, f"{counts} skipped, scale {last:g} at the end")


def _all_finite(steps: List[Step]) -> bool:
    return all(step.loss_is_finite for step in steps)
