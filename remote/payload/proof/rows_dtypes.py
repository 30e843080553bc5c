"""Rows about dtypes and about which tensors are trained at all."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterator, List

from remote.payload.proof.seen import Row, Seen, adapter_of, error, good, is_adapter, some, warning
from remote.protocol.precision import Mode
from remote.protocol.proof import NotChecked

HALF = ("float16", "bfloat16")
WORTH_TELLING_BYTES = 2**30


def judge(seen: Seen) -> Iterator[Row]:
    """Rows over the dtype tables."""
    yield from _trainable(seen)
    yield from _frozen(seen)
    yield from _bf16(seen)
    yield from _trained_set(seen)
    yield from _optimizer_parameters(seen)
    yield from _optimizer_state(seen)
    yield from _cast_late(seen)
    yield from _reduction(seen)


def _trainable(seen: Seen) -> Iterator[Row]:
    rows = seen.dtypes("trainable")
    half = [row for row in rows if row["dtype"] in HALF]
    names = [row["name"] for row in seen.trainable if row["dtype"] in HALF]
    if not rows:
        yield NotChecked("trainable-dtype", "nothing is trainable")
    elif half and seen.plan.mode is Mode.FP16_PURE:
        yield warning("trainable-dtype", f"{len(names)} trained tensors are in half precision, as was asked for")
    elif half and not seen.below_bf16 and all(row["dtype"] == "bfloat16" for row in half):
        yield warning(
            "trainable-dtype",
            f"{len(names)} trained tensors are bfloat16: steps smaller than 0.4 % of a weight are lost",
            where=some(names),
            hint="pipeline explain trainable-dtype",
        )
    elif half and seen.masters:
        told = f"{len(names)} trained tensors are float16, and the optimizer steps float32 copies of them"
        yield good("trainable-dtype", told)
    elif half:
        kinds = " and ".join(sorted({row["dtype"] for row in half}))
        yield error(
            "trainable-dtype",
            f"{len(names)} of {len(seen.trainable)} trained tensors are {kinds}; all must be float32",
            where=some(names),
            hint="pipeline fix --only trainable-fp32",
        )
    else:
        yield good("trainable-dtype", f"all {len(seen.trainable)} trained tensors are float32")


def _frozen(seen: Seen) -> Iterator[Row]:
    sizes: Dict[str, int] = Counter()
    for row in seen.dtypes("frozen"):
        sizes[row["dtype"]] += row["bytes"]
    wide = sizes.get("float32", 0)
    if seen.plan.frozen_dtype in HALF and wide > WORTH_TELLING_BYTES and wide > sum(sizes.values()) / 2:
        yield warning(
            "frozen-dtype",
            f"{wide / 2**30:.1f} GiB of frozen weights are float32; {seen.plan.frozen_dtype} would take half",
        )
    else:
        yield good(
            "frozen-dtype", ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in sizes.items()) or "none"
        )


def _bf16(seen: Seen) -> Iterator[Row]:
    if not seen.below_bf16:
        return
    rows = [row for row in seen.dtypes("trainable", "frozen", "buffer") if row["dtype"] == "bfloat16"]
    if rows:
        kinds = ", ".join(f"{row['tensors']} {row['kind']}" for row in rows)
        told = error if any(row["kind"] != "buffer" for row in rows) else warning
        yield told(
            "bf16-left",
            f"bfloat16 tensors are left ({kinds}) on a card that only emulates it",
            where=some(name for row in rows for name in row["examples"]),
            hint="pipeline fix --only bf16-to-fp16",
        )
    else:
        yield good("bf16-left", "no parameter and no buffer is bfloat16")


def _trained_set(seen: Seen) -> Iterator[Row]:
    if not seen.trainable:
        # A prompt or a perturbation outside of the model may be all that is trained.
        if "nonzero" in {state for states in seen.gradients().values() for state in states}:
            yield warning("trainable-set", "every parameter of the model is frozen; tensors outside of it are trained")
        else:
            yield error("trainable-set", "nothing is trainable: every parameter has requires_grad False")
        return
    adapters = [row for row in seen.trainable if is_adapter(row["name"])]
    others = [row for row in seen.trainable if not is_adapter(row["name"]) and "modules_to_save" not in row["name"]]
    groups: Dict[str, int] = Counter()
    for row in adapters:
        groups[adapter_of(row["name"])] += row["elements"]
    told = {name: size for name, size in groups.items() if name}
    wanted = set(seen.request.adapters)
    extra = {name: size for name, size in told.items() if name not in wanted} if wanted else {}
    reached = {adapter_of(name) for name, states in seen.gradients().items() if "nonzero" in states}
    if extra and reached & set(extra):
        listed = ", ".join(f"{name} ({size:,} weights)" for name, size in extra.items())
        yield error("trainable-set", f"adapters that were not asked for are trained: {listed}")
    elif len(told) > 1:
        listed = ", ".join(f"{name} ({size:,} weights)" for name, size in told.items())
        yield warning("trainable-set", f"more than one adapter is trained: {listed}")
    elif adapters and others:
        count = sum(row["elements"] for row in others)
        yield warning(
            "trainable-set",
            f"{count:,} weights of the base model are trained beside the adapter",
            where=some(row["name"] for row in others),
        )
    else:
        yield good("trainable-set", f"{sum(row['elements'] for row in seen.trainable):,} weights are trained")


def _optimizer_parameters(seen: Seen) -> Iterator[Row]:
    if not seen.first.get("optimizers"):
        yield NotChecked("optimizer-parameters", "no optimizer step was tried")
        return
    forgotten = [row["name"] for row in seen.trainable if not row["optimized"]]
    strangers = sum(int(rank.get("strangers", 0)) for rank in seen.ranks)
    if seen.masters:
        yield good("optimizer-parameters", f"the optimizer holds float32 copies of {len(forgotten)} trained tensors")
    elif forgotten and (strangers or any(is_adapter(name) for name in forgotten)) and not _moved_by_hand(seen):
        yield error(
            "optimizer-parameters",
            f"{len(forgotten)} trainable tensors are in no optimizer"
            + (f", which holds {strangers} tensors that are not the model's" if strangers else ""),
            where=some(forgotten),
        )
    elif forgotten or strangers:
        yield warning(
            "optimizer-parameters",
            f"{len(forgotten)} trainable tensors are in no optimizer, {strangers} are strange to it",
        )
    else:
        yield good("optimizer-parameters", "the optimizer holds every trainable tensor, and only those")


def _moved_by_hand(seen: Seen) -> bool:
    """What no optimizer holds changed all the same."""
    return any(rank.get("copies_moved") for rank in seen.ranks)


def _optimizer_state(seen: Seen) -> Iterator[Row]:
    rows: List[Dict[str, Any]] = seen.every("optimizer_state")
    half = [row for row in rows if row["dtype"] in HALF]
    if not any(row["applied"] for row in seen.attempts):
        yield NotChecked("optimizer-state-dtype", "no step was applied, so the optimizer has no state yet")
    elif half and seen.plan.mode not in (Mode.FP16_PURE, Mode.BF16):
        trained_half = any(row["dtype"] in HALF for row in seen.dtypes("trainable"))
        told = error if trained_half or seen.spoiled else warning
        yield told(
            "optimizer-state-dtype",
            f"the optimizer keeps {sum(row['tensors'] for row in half)} moments in {half[0]['dtype']}",
            where=some(sorted({name for row in half for name in row["examples"]})),
        )
    elif half:
        yield warning("optimizer-state-dtype", f"the optimizer keeps its moments in {half[0]['dtype']}")
    else:
        kinds = sorted({row["dtype"] for row in rows})
        yield good("optimizer-state-dtype", f"moments are {' and '.join(kinds)}" if kinds else "it keeps no moments")


def _cast_late(seen: Seen) -> Iterator[Row]:
    changed = seen.every("changed_dtype")
    if not changed:
        yield good("optimizer-before-cast", "no parameter changed its dtype after the optimizer was built")
        return
    name, was, now = changed[0]
    message = f"{len(changed)} parameters changed from {was} to {now} after the optimizer was built"
    half = any(row["dtype"] == "float16" for row in seen.dtypes("trainable"))
    told = error if now == "float16" and half else warning
    yield told("optimizer-before-cast", message, where=name)


def _reduction(seen: Seen) -> Iterator[Row]:
    dtype = seen.first.get("reduce_dtype")
    if dtype == "bfloat16" and seen.below_bf16:
        yield error(
            "reduce-dtype",
            "FSDP reduces gradients in bfloat16 on a card that only emulates it",
            hint="pipeline fix --only bf16-to-fp16",
        )
    elif dtype == "float16":
        yield warning("reduce-dtype", "FSDP reduces gradients in float16: sums over ranks overflow early")
    elif dtype:
        yield good("reduce-dtype", f"FSDP reduces gradients in {dtype}")
