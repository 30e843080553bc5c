"""Rows about the optimizer steps: autocast, loss, gradients, loss scale, movement."""

from __future__ import annotations

import math
from typing import Iterator, List

from remote.payload.proof.seen import Row, Seen, error, good, is_adapter, some, warning
from remote.protocol.precision import Mode
from remote.protocol.proof import NotChecked

LOWEST_SCALE = 128.0
A_FEW_SKIPS = 4
_STANDS_IN = ", as torch.cuda.amp and Accelerate do for float16"


def judge(seen: Seen) -> Iterator[Row]:
    """Rows over losses, gradients and the loss scale."""
    yield from _autocast(seen)
    yield from _scaler(seen)
    yield from _trajectory(seen)
    yield from _loss(seen)
    yield from _loss_dtype(seen)
    yield from _gradient_finite(seen)
    yield from _gradients(seen)
    yield from _movement(seen)
    yield from _rates(seen)


def _autocast_states(seen: Seen) -> List[str]:
    return sorted({state for rank in seen.ranks for state in rank.get("modules", {}).get("autocast", {})})


def _autocast(seen: Seen) -> Iterator[Row]:
    states = _autocast_states(seen)
    wanted = seen.plan.autocast_dtype
    if not states:
        yield NotChecked("autocast", "no layer with parameters was called by a model that could be hooked")
    elif "bfloat16" in states and seen.below_bf16:
        yield error("autocast", "autocast runs in bfloat16 on a card that only emulates it", hint="precision: auto")
    elif wanted and states == ["off"] and seen.first.get("reduce_dtype"):
        yield good("autocast", "off: FSDP's mixed precision casts instead")
    elif wanted and states == ["off"] and seen.waits_for_card:
        yield NotChecked("autocast", f"off on this CPU; the command asks for it on a card only{_STANDS_IN}")
    elif wanted and states == ["off"]:
        half = [row for row in seen.dtypes("trainable", "frozen") if row["dtype"] == "float16"]
        if half and seen.on_cpu and seen.flag("autocast_off"):
            yield warning(
                "autocast",
                "autocast is switched off on this CPU, and weights are float16; off on a card too, it would compute "
                "everything in pure float16",
            )
        elif half and seen.masters:
            yield warning(
                "autocast",
                "autocast is off: all is computed in pure float16, and float32 copies of the weights are stepped",
            )
        elif half:
            yield error("autocast", "autocast is off and weights are float16: everything is computed in pure float16")
        else:
            yield warning("autocast", "autocast is off: the command trains in float32, slower and in twice the memory")
    elif wanted and wanted not in states:
        yield warning("autocast", f"autocast runs in {' and '.join(states)}; the plan says {wanted}")
    else:
        yield good("autocast", f"layers ran with autocast {' and '.join(states)}")


def _scaler(seen: Seen) -> Iterator[Row]:
    states = _autocast_states(seen)
    present = any(rank.get("scaler") for rank in seen.ranks)
    half_trained = any(row["dtype"] == "float16" for row in seen.dtypes("trainable"))
    if not seen.attempts and not present:
        yield NotChecked("scaler", "no optimizer step was tried")
    elif not present and seen.on_cpu and (seen.waits_for_card or seen.flag("scaler_waits_for_card")):
        yield NotChecked("scaler", f"off on this CPU; the command asks for one on a card only{_STANDS_IN}")
    elif ("float16" in states or half_trained) and not present and seen.flag("scaled_by_hand"):
        yield warning("scaler", "the loss is scaled by hand: nothing skips a step that overflows or lowers the scale")
    elif "float16" in states and not present:
        yield error("scaler", "autocast runs in float16 without a GradScaler: small gradients become 0")
    elif half_trained and not present and seen.plan.mode is not Mode.FP16_PURE:
        yield error("scaler", "float16 parameters are trained without a GradScaler: small gradients become 0")
    elif present and "bfloat16" in states:
        yield warning("scaler", "a GradScaler is on although autocast runs in bfloat16, which needs none")
    else:
        yield good("scaler", "a GradScaler is on" if present else "none, and none is needed")


def _trajectory(seen: Seen) -> Iterator[Row]:
    scaled = [row for row in seen.attempts if row["scale"] is not None]
    if not scaled:
        return
    skipped = [row for row in scaled if not row["applied"]]
    last = scaled[-1].get("scale_after", scaled[-1]["scale"])
    course = " ".join(f"{row['scale']:g}" for row in scaled[-8:])
    bad: List[str] = next((row["nonfinite"] for row in skipped if row["nonfinite"]), [])
    if len(skipped) == len(scaled) and len(scaled) > 1:
        yield error("scaler-trajectory", f"all {len(scaled)} steps overflowed (scale {course})", where=some(bad))
    elif last < LOWEST_SCALE:
        yield error("scaler-trajectory", f"the loss scale fell to {last:g} (scale {course})", where=some(bad))
    elif len(skipped) > A_FEW_SKIPS:
        yield warning("scaler-trajectory", f"{len(skipped)} of {len(scaled)} steps were skipped (scale {course})")
    else:
        yield good("scaler-trajectory", f"{len(skipped)} of {len(scaled)} steps skipped, scale {last:g} at the end")


def _loss(seen: Seen) -> Iterator[Row]:
    losses = seen.losses
    if not losses:
        yield NotChecked("loss-finite", "no scalar loss was seen going backward")
        return
    bad = [loss for loss in losses if not math.isfinite(loss)]
    if bad:
        yield error("loss-finite", f"{len(bad)} of {len(losses)} losses are {bad[0]}")
    else:
        yield good("loss-finite", f"{len(losses)} losses, {losses[0]:.4g} first and {losses[-1]:.4g} last")
    steps = [row["losses"] for row in seen.attempts if row["losses"]]
    if any(all(loss == 0.0 for loss in row) for row in steps):
        yield error("loss-zero", "the loss of a whole step is exactly 0.0: nothing is being learnt")
    elif steps:
        yield good("loss-zero", "no step has a loss of exactly 0.0")
    rank_losses = [loss for row in steps for loss in row]
    if len(steps) > 2 and len(set(rank_losses)) == 1 and rank_losses[0] not in (0.0, float("inf")):
        yield error("loss-constant", f"the loss is {rank_losses[0]:.6g} in every one of {len(steps)} steps")
    elif len(set(rank_losses)) > 1:
        yield good("loss-constant", "the loss changes")
    else:
        yield NotChecked("loss-constant", "too few losses to tell")


def _loss_dtype(seen: Seen) -> Iterator[Row]:
    dtypes = {name for rank in seen.ranks for name in rank.get("loss_dtypes", {})}
    entropies = [
        row for row in seen.every("targets") if row["dtype"] == "torch.float16" and row["autocast"] != "float16"
    ]
    if not dtypes:
        yield NotChecked("loss-dtype", "no scalar loss was seen going backward")
    elif ("float16" in dtypes or entropies) and seen.waits_for_card:
        yield NotChecked("loss-dtype", "the command's autocast, which widens most losses, is on on a card only")
    elif "float16" in dtypes or entropies:
        told = "the loss is float16" if "float16" in dtypes else "cross entropy is computed in float16"
        yield error("loss-dtype", f"{told}: from 1.0 on it overflows when it is scaled by 65536", hint="loss.float()")
    else:
        yield good("loss-dtype", f"the loss is {' and '.join(sorted(dtypes))}")


def _gradient_finite(seen: Seen) -> Iterator[Row]:
    applied = [row for row in seen.attempts if row["applied"]]
    if not applied:
        yield NotChecked("gradient-finite", "no step was applied")
        return
    names = [name for name, states in seen.gradients().items() if "nonfinite" in states]
    norms = [row["grad_norm"] for row in applied if row["grad_norm"] is not None]
    if names or any(not math.isfinite(norm) for norm in norms):
        yield error(
            "gradient-finite", f"{len(names)} gradients were not finite when they were applied", where=some(names)
        )
    else:
        yield good("gradient-finite", f"gradient norms {', '.join(f'{norm:.3g}' for norm in norms)}")


def _gradients(seen: Seen) -> Iterator[Row]:
    """A fresh LoRA's A gets its first gradient after B has moved, so one step alone proves nothing about A."""
    steps = len(seen.effective)
    if not steps:
        yield NotChecked("adapter-gradient", "no step was applied at a learning rate above 0")
        return
    states = seen.gradients()
    sizes = {row["name"]: row["elements"] for row in seen.trainable}
    idle = [name for name, seen_as in states.items() if set(seen_as) <= {"none", "zero"} and sizes.get(name, 1)]
    if steps == 1:
        idle = [name for name in idle if "lora_a" not in name.lower()]
    adapters = [name for name in idle if is_adapter(name)]
    if idle and seen.clipped_away:
        yield NotChecked("adapter-gradient", "clipping left nothing of any gradient")
    elif adapters:
        total = sum(is_adapter(name) for name in states)
        yield error(
            "adapter-gradient",
            f"{len(adapters)} of {total} adapter tensors got no gradient in {steps} steps",
            where=some(adapters),
        )
    elif idle and len(idle) == len(states):
        yield error("adapter-gradient", f"no trained tensor got a gradient in {steps} steps", where=some(idle))
    elif idle:
        yield warning(
            "adapter-gradient", f"{len(idle)} of {len(states)} trained tensors got no gradient", where=some(idle)
        )
    else:
        yield good("adapter-gradient", f"all {len(states)} trained tensors got gradients")
    if seen.flag("reentrant_without_gradient"):
        told = error if adapters or (idle and len(idle) == len(states)) else warning
        yield told(
            "checkpoint-reentrant",
            "reentrant checkpointing was given no input that requires a gradient, so it passes none on",
            hint="gradient_checkpointing_kwargs={'use_reentrant': False}",
        )


def _movement(seen: Seen) -> Iterator[Row]:
    steps = len(seen.effective)
    moved = seen.moved()
    if seen.first.get("put_back"):
        yield error(
            "adapter-moves",
            "before its second step every trained tensor has the values again that it had before the first: "
            "something writes them back",
        )
        return
    if steps < seen.request.steps or not moved:
        yield NotChecked("adapter-moves", f"{steps} steps that count were applied, {seen.request.steps} are needed")
        return
    states = seen.gradients()
    still = [name for name, has_moved in moved.items() if not has_moved and "nonzero" in states.get(name, [])]
    if still and (len(still) == len(moved) or any(is_adapter(name) for name in still)):
        yield error(
            "adapter-moves",
            f"{len(still)} of {len(moved)} trained tensors have gradients and did not change in {steps} steps",
            where=some(still),
        )
    elif still:
        yield warning(
            "adapter-moves", f"{len(still)} of {len(moved)} trained tensors did not change", where=some(still)
        )
    elif not any(moved.values()):
        yield error("adapter-moves", f"no trained tensor changed in {steps} steps")
    else:
        yield good("adapter-moves", f"{sum(moved.values())} of {len(moved)} trained tensors changed")


def _rates(seen: Seen) -> Iterator[Row]:
    rates = [row["lr"] for row in seen.attempts]
    if rates and not any(rates):
        yield error("learning-rate", f"the learning rate is 0 in all of {len(rates)} steps")
    elif rates:
        yield good("learning-rate", f"{rates[0]:.3g} first, {rates[-1]:.3g} last")
