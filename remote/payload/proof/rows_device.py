"""Rows about the card: outputs near float16's limit, attention, memory, time."""

from __future__ import annotations

from typing import Iterator, Optional

from remote.payload.proof.seen import Row, Seen, error, good, some, warning
from remote.protocol.proof import NotChecked
from remote.protocol.quantities import duration

FLOAT16_MAX = 65504.0
HEADROOM = 8
NEARLY_FULL = 0.92
FULL = 0.98


def judge(seen: Seen) -> Iterator[Row]:
    """Rows over outputs, attention, memory and time."""
    yield from _device(seen)
    yield from _outputs(seen)
    yield from _attention(seen)
    yield from _mode(seen)
    yield from _memory(seen)
    yield from _time(seen)


def _device(seen: Seen) -> Iterator[Row]:
    device = seen.first.get("device", {})
    if device.get("type") == "cuda":
        yield good("device", f"trained on {device['name']}")
    elif seen.request.card_seen:
        yield error(
            "device", "the command trained on the CPU although the host has a card", hint="pipeline explain device"
        )
    elif seen.request.capability is not None:
        major, minor = seen.request.capability
        yield NotChecked("device", f"trained on the CPU, which stands for a card of capability {major}.{minor} here")
    else:
        yield good("device", "trained on the CPU; there is no card")


def _outputs(seen: Seen) -> Iterator[Row]:
    modules = seen.first.get("modules", {})
    if modules.get("compiled"):
        yield NotChecked("activation-headroom", "the model is compiled; hooks inside would change what is measured")
        return
    if not modules.get("modules"):
        yield NotChecked("activation-headroom", "no module's output was seen")
        return
    bad = [name for rank in seen.ranks for name in rank.get("modules", {}).get("nonfinite", [])]
    hurt = seen.loss_lost or not any(row["applied"] for row in seen.attempts)
    if bad:
        told = error if hurt else warning
        yield told("activation-finite", f"outputs are not finite, first in {bad[0]}", where=some(dict.fromkeys(bad)))
    else:
        yield good("activation-finite", f"outputs of {modules['modules']} modules are finite")
    largest = modules.get("largest", [])
    if not largest:
        yield NotChecked("activation-headroom", "no module gave float16 out")
    elif largest[0][1] > FLOAT16_MAX / HEADROOM:
        yield warning(
            "activation-headroom",
            f"{largest[0][0]} gives {largest[0][1]:.0f}; float16 ends at 65504",
            where=some([f"{name} {value:.0f}" for name, value in largest]),
        )
    else:
        yield good("activation-headroom", f"largest float16 output {largest[0][1]:.4g}, of {largest[0][0]}")


def _attention(seen: Seen) -> Iterator[Row]:
    attention = seen.first.get("attention", {})
    kinds = attention.get("kinds", [])
    asked = attention.get("asked", [])
    if any("flash_attention" in name for name in asked) and seen.below_bf16:
        told = warning if kinds else error
        yield told("attention-backend", f"{asked[0]} needs a card of capability 8.0", hint='attn_implementation="sdpa"')
    elif not kinds:
        how = f"; the model's config says {asked[0]}" if asked else ""
        yield NotChecked("attention-backend", f"scaled_dot_product_attention was not called{how}")
    elif any(kind["backend"] == "math" and kind["device"] == "cuda" for kind in kinds):
        yield warning(
            "attention-backend", "attention falls back to the math kernel: slow, and its memory grows quadratically"
        )
    else:
        yield good("attention-backend", ", ".join(sorted({f"{kind['backend']} ({kind['dtype']})" for kind in kinds})))


def _mode(seen: Seen) -> Iterator[Row]:
    name = seen.flag("eval_mode")
    if name:
        yield warning("train-mode", f"{name} is trained in eval mode: no dropout", hint="model.train()")
    else:
        yield good("train-mode", "the model is in training mode")


def peak_bytes(seen: Seen) -> Optional[int]:
    """The most any one process held."""
    rows = [rank.get("memory", {}) for rank in seen.ranks]
    peaks = [row.get("reserved_bytes", row.get("allocated_bytes", 0)) for row in rows]
    return max(peaks) if peaks else None


def _memory(seen: Seen) -> Iterator[Row]:
    total = seen.first.get("device", {}).get("total_bytes")
    peak = peak_bytes(seen)
    if not peak:
        yield NotChecked("peak-memory", "the process said nothing about its memory")
    elif not total:
        yield good("peak-memory", f"{peak / 2**30:.2f} GiB of main memory; no card was used")
    else:
        available = total - seen.first["memory"].get("others_bytes", 0)
        share = peak / max(available, 1)
        # The allocator keeps what it once had: a card that is all reserved may be half empty.
        held = max(rank.get("memory", {}).get("allocated_bytes", 0) for rank in seen.ranks)
        message = f"{peak / 2**30:.2f} of {available / 2**30:.2f} GiB that can be had ({share:.0%})"
        if held / max(available, 1) > FULL:
            yield error("peak-memory", message, hint="train.batch_size halved, train.gradient_accumulation doubled")
        elif share > NEARLY_FULL:
            yield warning("peak-memory", message)
        else:
            yield good("peak-memory", message)
    sizes = [row["shape"] for row in seen.first.get("labels", [])]
    widest = f"; the longest batch seen was {max(size[-1] for size in sizes)} positions" if sizes else ""
    yield NotChecked("longest-batch", f"which batch of the run is the longest is known to the script alone{widest}")


def _time(seen: Seen) -> Iterator[Row]:
    times = [row["seconds"] for row in seen.attempts[1:]]
    if not times:
        yield NotChecked("step-time", "the first step warms up, and there was no second")
        return
    seconds = min(times)
    steps = seen.request.run_steps
    whole = f", {steps} steps take about {duration(seconds * steps)}" if steps else ""
    yield good("step-time", f"{seconds:.3g} s per optimizer step{whole}")
