"""Checks of the device: outputs near float16's limit, attention, memory, time."""

from __future__ import annotations

from typing import Iterator, Optional

from remote.payload.proof.evidence import Evidence, Result, error, passed, some, warning
from remote.payload.proof.hooks.eval_mode import DROPOUT
from remote.protocol.proof import NotChecked
from remote.protocol.quantities import duration

FLOAT16_MAX = 65504.0
HEADROOM = 8
NEARLY_FULL = 0.92
FULL = 0.98


def judge(evidence: Evidence) -> Iterator[Result]:
    yield _device(evidence)
    yield from _outputs(evidence)
    yield _attention(evidence)
    yield _mode(evidence)
    yield _memory(evidence)
    yield _longest_batch(evidence)
    yield _time(evidence)


def _device(evidence: Evidence) -> Result:
    device, request = evidence.first.model.device, evidence.request
    if device.type == "cuda":
        return passed("device", f"trained on {device.name}")
    if request.card_seen:
        message = "the command trained on the CPU although the host has a card"
        return error("device", message, hint="pipeline explain device")
    if request.capability is not None:
        major, minor = request.capability
        return NotChecked("device", f"trained on the CPU, which simulates a card of capability {major}.{minor}")
    return passed("device", "trained on the CPU; there is no card")


def _outputs(evidence: Evidence) -> Iterator[Result]:
    modules = evidence.first.modules
    if modules.compiled:
        reason = "the model is compiled, and hooks inside it would change the measurement"
        yield NotChecked("activation-headroom", reason)
    elif not modules.modules:
        yield NotChecked("activation-headroom", "no module's output was measured")
    else:
        yield _finite_outputs(evidence)
        yield _headroom(evidence)


def _finite_outputs(evidence: Evidence) -> Result:
    bad = list(dict.fromkeys(name for rank in evidence.ranks for name in rank.modules.nonfinite))
    if not bad:
        return passed("activation-finite", f"outputs of {evidence.first.modules.modules} modules are finite")
    lost = evidence.loss_lost or not any(step.applied for step in evidence.steps)
    grade = error if lost else warning
    return grade("activation-finite", f"outputs are not finite, first in {bad[0]}", where=some(bad))


def _headroom(evidence: Evidence) -> Result:
    largest = evidence.first.modules.largest
    if not largest:
        return NotChecked("activation-headroom", "no module has a float16 output")
    name, value = largest[0]
    if value > FLOAT16_MAX / HEADROOM:
        names = [f"{name} {value:.0f}" for name, value in largest]
        message = f"{name} outputs {value:.0f}; the largest float16 value is 65504"
        return warning("activation-headroom", message, where=some(names))
    return passed("activation-headroom", f"largest float16 output {value:.4g}, of {name}")


def _attention(evidence: Evidence) -> Result:
    calls, configured = evidence.first.attention.calls, evidence.first.attention.configured
    if evidence.below_bf16 and any("flash_attention" in name for name in configured):
        grade = warning if calls else error
        message = f"{configured[0]} needs a card of capability 8.0"
        return grade("attention-backend", message, hint='attn_implementation="sdpa"')
    if not calls:
        config = f"; the model's config selects {configured[0]}" if configured else ""
        return NotChecked("attention-backend", f"scaled_dot_product_attention was not called{config}")
    if any(call.backend == "math" and call.device == "cuda" for call in calls):
        message = "attention uses the math kernel, which is slow and needs memory that grows quadratically"
        return warning("attention-backend", message)
    return passed("attention-backend", ", ".join(sorted({f"{call.backend} ({call.dtype})" for call in calls})))


def _mode(evidence: Evidence) -> Result:
    name, effect = evidence.flags.eval_mode, evidence.flags.eval_effect
    if effect:
        difference = "without dropout" if effect == DROPOUT else f"which changes its layers {effect}"
        return warning("train-mode", f"{name} is trained in eval mode, {difference}", hint="model.train()")
    if name:
        return passed("train-mode", f"{name} is in eval mode, which changes none of the layers that are trained")
    return passed("train-mode", "the model is in training mode")


def peak_bytes(evidence: Evidence) -> Optional[int]:
    """Return the largest peak memory of all processes, or None if no process reported it."""
    memories = [rank.memory for rank in evidence.ranks]
    return max((m.allocated_bytes if m.reserved_bytes is None else m.reserved_bytes for m in memories), default=None)


def _memory(evidence: Evidence) -> Result:
    total, peak = evidence.first.model.device.total_bytes, peak_bytes(evidence)
    if not peak:
        return NotChecked("peak-memory", "the process reported no memory")
    if not total:
        return passed("peak-memory", f"{peak / 2**30:.2f} GiB of main memory; no card was used")
    available = max(total - evidence.first.memory.others_bytes, 1)
    share = peak / available
    # The allocator never returns reserved memory, so a fully reserved card may be half empty.
    allocated = max(rank.memory.allocated_bytes for rank in evidence.ranks)
    message = f"{peak / 2**30:.2f} of {available / 2**30:.2f} GiB that are available ({share:.0%})"
    if allocated / available > FULL:
        return error("peak-memory", message, hint="halve train.batch_size and double train.gradient_accumulation")
    return (warning if share > NEARLY_FULL else passed)("peak-memory", message)


def _longest_batch(evidence: Evidence) -> Result:
    sizes = [row.shape[-1] for row in evidence.first.batches.labels]
    widest = f"; the longest batch so far had {max(sizes)} positions" if sizes else ""
    return NotChecked("longest-batch", f"only the script can determine the longest batch of the run{widest}")


def step_seconds(evidence: Evidence) -> Optional[float]:
    """Return the predicted time of an average step of the run, or None if there was no second step.

    The first step is a warm-up. The built-in trainer plans how many tokens each step has, so its prediction is the time
    per token times the tokens of an average step. For other programs it is the mean of the measured steps.
    """
    seconds = [step.seconds for step in evidence.steps[1:]]
    if not seconds:
        return None
    tokens = evidence.memory.first_tokens[1 : len(evidence.steps)] if evidence.memory is not None else ()
    if evidence.memory is None or len(tokens) < len(seconds) or not sum(tokens):
        return sum(seconds) / len(seconds)
    return evidence.memory.mean_tokens * sum(seconds) / sum(tokens)


def _time(evidence: Evidence) -> Result:
    seconds, steps = step_seconds(evidence), evidence.request.run_steps
    if seconds is None:
        return NotChecked("step-time", "the first step is a warm-up, and there was no second step")
    whole_run = f", {steps} steps take about {duration(seconds * steps)}" if steps else ""
    return passed("step-time", f"{seconds:.3g} s per optimizer step{whole_run}")
