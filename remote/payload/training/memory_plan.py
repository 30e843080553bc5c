"""Choose micro-batch and checkpointed layers for the memory of a device. The samples of each step do not change."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Callable, List, Optional, Sequence

from remote.payload.training.failure import TrainingFailed
from remote.payload.training.memory import Shape
from remote.payload.training.micro_batches import TOKENS_OF_A_PASS
from remote.payload.training.samples import Sample
from remote.payload.training.shared_prefix import is_shared, row_length
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.training import LoopSpec, MemoryPlan

Peak = Callable[[Shape, int], int]


@dataclass(frozen=True)
class Device:
    """The device that the model will be trained on. `available_bytes` is None if it is unknown.

    `is_card` is True for a card, present or assumed.
    """

    name: str
    available_bytes: Optional[int]
    is_card: bool = True


def plan_memory(
    loop: LoopSpec,
    samples: Sequence[Sample],
    device: Device,
    layers: int,
    peak: Peak,
    orders: Sequence[Sequence[int]] = (),
) -> MemoryPlan:
    """Return the fastest plan that fits.

    If no plan fits, return the plan that needs the least memory.

    `peak(shape, checkpointed)` estimates bytes. The plan is made for the longest samples, so it is valid for all
    samples. If micro-batches share prefixes, the plan is made for the largest micro-batches in the epochs' `orders`,
    which then have a fixed number of samples. Otherwise, a micro-batch may have as many tokens as the longest samples.
    """
    length = max(len(sample) for sample in samples)
    step = loop.batch_size * loop.gradient_accumulation
    best: Optional[MemoryPlan] = None
    for size in _sizes(loop):
        shapes = _shapes(samples, orders, size, accumulates=step > size)
        plan = MemoryPlan(
            size, step // size, 0, layers, length, None, device.available_bytes, device.name,
            shared_length=_shared_length(shapes),
        )  # fmt: skip
        if plan.accumulation > 1 and not plan.shared_length:
            plan = replace(plan, positions=size * length, labels=shapes[0].labels)
        if best is not None and best.fits and _cost_of(plan) >= _cost_of(best):
            break
        cached = functools.lru_cache(maxsize=None)(functools.partial(_highest, peak, shapes))
        count = _checkpointed(loop, layers, device.available_bytes, cached)
        plan = replace(plan, checkpointed=count, needed_bytes=cached(count))
        if best is None or not best.fits or (plan.fits and _cost_of(plan) < _cost_of(best)):
            best = plan
    assert best is not None
    return best if best.fits else replace(best, hint=_hint(loop))


def plan_without_estimate(loop: LoopSpec, layers: int) -> MemoryPlan:
    """Return the plan for a model whose memory cannot be estimated: as configured, or all layers checkpointed."""
    size = loop.micro_batch or loop.batch_size
    checkpointed = 0 if loop.gradient_checkpointing is False else layers
    return MemoryPlan(size, loop.batch_size * loop.gradient_accumulation // size, checkpointed, layers)


def _sizes(loop: LoopSpec) -> List[int]:
    """Return the sizes of micro-batches to try, the largest first."""
    if loop.micro_batch is not None:
        return [loop.micro_batch]
    return [size for size in range(loop.batch_size, 0, -1) if loop.batch_size % size == 0]


def _highest(peak: Peak, shapes: Sequence[Shape], checkpointed: int) -> int:
    return max(peak(shape, checkpointed) for shape in shapes)


def _shapes(samples: Sequence[Sample], orders: Sequence[Sequence[int]], size: int, accumulates: bool) -> List[Shape]:
    """Return the largest micro-batches: one with separate rows, and one with a shared prefix."""
    length, labels = max(len(sample) for sample in samples), _most_labels(samples, size)
    batches = [[samples[i] for i in order[at : at + size]] for order in orders for at in range(0, len(order), size)]
    shared = [row_length(batch) for batch in batches if is_shared(batch)]
    if not shared:
        return [Shape(size, length, labels, accumulates)]
    shapes = [Shape(1, max(shared), labels, accumulates, is_shared=True)]
    separate = [len(sample) for batch in batches if not is_shared(batch) for sample in batch]
    return [*shapes, Shape(size, max(separate), labels, accumulates)] if separate else shapes


def _shared_length(shapes: Sequence[Shape]) -> int:
    return max((shape.length for shape in shapes if shape.is_shared), default=0)


def _most_labels(samples: Sequence[Sample], size: int) -> int:
    counts = sorted((sample.labels for sample in samples), reverse=True)
    return sum(counts[:size])


def _checkpointed(loop: LoopSpec, layers: int, available: Optional[int], peak: Callable[[int], int]) -> int:
    """Return the smallest number of checkpointed layers that fits.

    Return all layers if no number fits or the memory is unknown.
    """
    if loop.gradient_checkpointing is not None:
        return layers if loop.gradient_checkpointing else 0
    if available is None or peak(layers) > available:
        return layers
    if peak(0) <= available:
        return 0
    # Each checkpointed layer saves about the same amount, so the first guess is close to the answer.
    guess = round(layers * (peak(0) - available) / max(1, peak(0) - peak(layers)))
    count = min(max(guess, 1), layers)
    while peak(count) > available:
        count += 1
    while count > 1 and peak(count - 1) <= available:
        count -= 1
    return count


def _cost_of(plan: MemoryPlan) -> float:
    tokens = plan.shared_length or plan.micro_batch * plan.length
    return _cost(plan.micro_batch, tokens, plan.checkpointed / plan.layers)


def _cost(size: int, tokens: int, checkpointed: float) -> float:
    """Return the relative time per sample: forward, backward and recomputed passes over tokens and weights."""
    return (2.0 + checkpointed) * (tokens + TOKENS_OF_A_PASS["cuda"]) / size


def check_memory(plan: MemoryPlan, device: Device) -> None:
    """Raise TrainingFailed with exit code 21 if the model will not fit on the card. On a CPU, it never raises."""
    if device.is_card and not plan.fits:
        raise TrainingFailed("gpu-memory", plan.shortage(), hint=plan.hint, exit_code=ExitCode.GPU)


def _hint(loop: LoopSpec) -> str:
    """Return the suggested change if the plan does not fit."""
    if loop.micro_batch is not None and loop.micro_batch > 1:
        return "--set train.micro_batch=auto"
    if loop.gradient_checkpointing is False:
        return "--set train.gradient_checkpointing=auto"
    return "a card with more memory, a smaller lora.r or shorter samples"
