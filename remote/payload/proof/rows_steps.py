"""Rows about the optimizer steps: gradients, movement, learning rate."""

from __future__ import annotations

from typing import Iterator

from remote.payload.proof.seen import Row, Seen, error, good, is_adapter, some, warning
from remote.protocol.proof import NotChecked


def judge(seen: Seen) -> Iterator[Row]:
    """Rows over what steps are taken with and what they change."""
    yield from _gradient_finite(seen)
    yield from _gradients(seen)
    yield from _movement(seen)
    yield from _rates(seen)


def _gradient_finite(seen: Seen) -> Iterator[Row]:
    applied = [row for row in seen.attempts if row["applied"]]
    if not applied:
        yield NotChecked("gradient-finite", "no step was applied")
        return
    names = [name for name, states in seen.gradients().items() if "nonfinite" in states]
    if seen.spoiled:
        cause = f"after {len(names)} gradients that were not" if names else "although all gradients were"
        yield error(
            "gradient-finite", f"{len(seen.spoiled)} trained tensors are not finite, {cause}", where=some(seen.spoiled)
        )
    elif names:
        yield warning(
            "gradient-finite",
            f"{len(names)} gradients were not finite when the optimizer was called; the weights are",
            where=some(names),
        )
    else:
        norms = [row["applied_norm"] for row in applied if row["applied_norm"] is not None]
        yield good("gradient-finite", f"gradient norms {', '.join(f'{norm:.3g}' for norm in norms)}")


def _gradients(seen: Seen) -> Iterator[Row]:
    """A fresh LoRA's A gets its first gradient after B has moved, so one step alone proves nothing about A.

    Experts that no token was sent to, or the adapter of a modality that the first batches lack, get none yet: it is a
    fault of all of an adapter only, or of what is behind reentrant checkpointing.
    """
    steps = len(seen.effective)
    states = {name: rows for name, rows in seen.gradients().items() if rows}
    if not steps or not states:
        yield NotChecked("adapter-gradient", "no step that counts was applied, or its gradients were not seen")
        return
    sizes = {row["name"]: row["elements"] for row in seen.trainable}
    idle = [name for name, seen_as in states.items() if set(seen_as) <= {"none", "zero"} and sizes.get(name, 1)]
    if steps == 1:
        idle = [name for name in idle if "lora_a" not in name.lower()]
    adapters = [name for name in idle if is_adapter(name)]
    total = sum(is_adapter(name) for name in states)
    reentrant = bool(seen.flag("reentrant_without_gradient"))
    if idle and seen.clipped_away:
        yield NotChecked("adapter-gradient", "clipping left nothing of any gradient")
    elif adapters and (len(adapters) == total or reentrant):
        message = f"{len(adapters)} of {total} adapter tensors got no gradient in {steps} steps"
        yield error("adapter-gradient", message, where=some(adapters))
    elif idle and len(idle) == len(states):
        yield error("adapter-gradient", f"no trained tensor got a gradient in {steps} steps", where=some(idle))
    elif idle:
        message = f"{len(idle)} of {len(states)} trained tensors got no gradient in {steps} steps"
        yield warning("adapter-gradient", message, where=some(adapters or idle))
    else:
        yield good("adapter-gradient", f"all {len(states)} trained tensors got gradients")
    if reentrant:
        told = error if adapters or (idle and len(idle) == len(states)) else warning
        yield told(
            "checkpoint-reentrant",
            "reentrant checkpointing was given no input that requires a gradient, so it passes none on",
            hint="gradient_checkpointing_kwargs={'use_reentrant': False}",
        )


def _movement(seen: Seen) -> Iterator[Row]:
    """A group at a rate of 0 rests by design; updates of a fresh LoRA's A may be below its last digit for a while.

    Where a warm-up begins, those of all tensors may be.
    """
    steps = len(seen.effective)
    moved = seen.moved()
    put_back = max((int(rank.get("put_back", 0)) for rank in seen.ranks), default=0)
    if put_back:
        told = error if put_back > 1 else warning
        yield told(
            "adapter-moves",
            f"before {'each of' if put_back > 1 else 'one of'} the next steps every trained tensor has the values "
            "again that it had before the first: something writes them back",
        )
        return
    if steps < seen.request.steps or not moved:
        yield NotChecked("adapter-moves", f"{steps} steps that count were applied, {seen.request.steps} are needed")
        return
    states = seen.gradients()
    still = [name for name in moved if not moved[name] and "nonzero" in states.get(name, [])]
    adapters = [name for name in still if is_adapter(name)]
    if not any(moved.values()):
        told = warning if _rises(seen) else error
        yield told("adapter-moves", f"no trained tensor changed in {steps} steps", where=some(adapters or still))
    elif still:
        yield warning(
            "adapter-moves",
            f"{len(still)} of {len(moved)} trained tensors have gradients and did not change in {steps} steps",
            where=some(adapters or still),
        )
    else:
        yield good("adapter-moves", f"{sum(moved.values())} of {len(moved)} trained tensors changed")


def _rises(seen: Seen) -> bool:
    rates = [row["lr"] for row in seen.effective if row["lr"] is not None]
    return bool(rates) and rates[-1] > rates[0]


def _rates(seen: Seen) -> Iterator[Row]:
    rates = [row["lr"] for row in seen.attempts]
    known = [rate for rate in rates if rate is not None]
    if rates and not known:
        yield NotChecked("learning-rate", "the optimizer keeps its rate where it cannot be read")
    elif known and not any(known):
        told = warning if any(row["scheduled"] for row in seen.attempts) else error
        yield told("learning-rate", f"the learning rate is 0 in all of {len(rates)} steps, and nothing changes")
    elif known:
        yield good("learning-rate", f"{known[0]:.3g} first, {known[-1]:.3g} last")
