"""Checks of dtypes, and of the set of trained tensors."""

from __future__ import annotations

from collections import Counter
from typing import Dict, Iterator, List

from remote.payload.proof.evidence import HALF, Evidence, Result, adapter_of, error, passed, some, warning
from remote.payload.proof.hooks.report import DtypeCount, TrainableTensor
from remote.payload.proof.hooks.rules import is_adapter
from remote.payload.proof.provenance import RUNTIME_HINT, explain, is_in_installed_code, remedy
from remote.protocol.precision import Mode
from remote.protocol.proof import NotChecked
from remote.protocol.quantities import count

LARGE_BYTES = 2**30
TENSORS = ("trained", "frozen")


def judge(evidence: Evidence) -> Iterator[Result]:
    yield _trainable(evidence)
    yield _frozen(evidence)
    if evidence.below_bf16:
        yield _bf16(evidence)
    yield _trained_set(evidence)
    yield _optimizer_parameters(evidence)
    yield _optimizer_state(evidence)
    yield _cast_late(evidence)
    yield from _reduction(evidence)
    yield from _tied(evidence)


def _trainable(evidence: Evidence) -> Result:
    if not evidence.dtypes("trainable"):
        return NotChecked("trainable-dtype", "nothing is trainable")
    half = [row for row in evidence.trainable if row.dtype in HALF]
    if not half:
        return passed("trainable-dtype", f"all {len(evidence.trainable)} trained tensors are float32")
    names, kinds = [row.name for row in half], sorted({row.dtype for row in half})
    if evidence.plan.mode is Mode.FP16_PURE:
        return warning("trainable-dtype", f"{len(names)} trained tensors are in half precision, as configured")
    if not evidence.below_bf16 and kinds == ["bfloat16"]:
        return warning(
            "trainable-dtype",
            f"{len(names)} trained tensors are bfloat16: updates smaller than 0.4 % of a weight are lost",
            where=some(names),
            hint="pipeline explain trainable-dtype",
        )
    if evidence.master_weights:
        message = f"{len(names)} trained tensors are float16, and the optimizer updates float32 copies of them"
        return passed("trainable-dtype", message)
    return error(
        "trainable-dtype",
        f"{len(names)} of {len(evidence.trainable)} trained tensors are {' and '.join(kinds)}; all must be float32"
        + explain(evidence, ("trained",), kinds),
        where=some(names),
        hint=RUNTIME_HINT if is_in_installed_code(evidence, ("trained",)) else "pipeline fix --only trainable-fp32",
    )


def _frozen(evidence: Evidence) -> Result:
    sizes: Dict[str, int] = Counter()
    for row in evidence.dtypes("frozen"):
        sizes[row.dtype] += row.bytes
    wide, half = sizes.get("float32", 0), evidence.plan.frozen_dtype
    if half in HALF and wide > LARGE_BYTES and wide > sum(sizes.values()) / 2:
        message = f"{wide / 2**30:.1f} GiB of frozen weights are float32; {half} would take half"
        return warning("frozen-dtype", message)
    table = ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in sizes.items())
    return passed("frozen-dtype", table or "none")


def _bf16(evidence: Evidence) -> Result:
    rows = [row for row in evidence.dtypes("trainable", "frozen", "buffer") if row.dtype == "bfloat16"]
    if not rows:
        return passed("bf16-left", "no parameter and no buffer is bfloat16")
    grade = error if any(row.kind != "buffer" for row in rows) else warning
    kinds = ", ".join(f"{row.tensors} {row.kind}" for row in rows)
    return grade(
        "bf16-left",
        f"bfloat16 tensors are left ({kinds}) on a card that only emulates it"
        + explain(evidence, TENSORS, ("bfloat16",)),
        where=some(name for row in rows for name in row.examples),
        hint=remedy(evidence, TENSORS, "pipeline fix --only bf16-to-fp16"),
    )


def _trained_set(evidence: Evidence) -> Result:
    trainable = evidence.trainable
    if not trainable:
        return _nothing_trainable(evidence)
    sizes = _adapter_sizes(trainable)
    unwanted = _unwanted(evidence, sizes)
    if unwanted:
        return error("trainable-set", f"adapters other than the configured ones are trained: {_listed(unwanted)}")
    if len(sizes) > 1:
        return warning("trainable-set", f"more than one adapter is trained: {_listed(sizes)}")
    base = [row for row in trainable if not is_adapter(row.name) and "modules_to_save" not in row.name]
    if base and any(is_adapter(row.name) for row in trainable):
        elements = sum(row.elements for row in base)
        message = f"{elements:,} weights of the base model are trained in addition to the adapter"
        return warning("trainable-set", message, where=some(row.name for row in base))
    return passed("trainable-set", f"{sum(row.elements for row in trainable):,} weights are trained")


def _nothing_trainable(evidence: Evidence) -> Result:
    # A command may train only tensors outside of the model, such as a prompt or a perturbation.
    if any("nonzero" in states for states in evidence.gradients.values()):
        message = "every parameter of the model is frozen; only tensors outside of the model are trained"
        return warning("trainable-set", message)
    return error("trainable-set", "nothing is trainable: every parameter has requires_grad False")


def _adapter_sizes(trainable: List[TrainableTensor]) -> Dict[str, int]:
    """Return the number of trained weights by the adapter's name."""
    sizes: Dict[str, int] = Counter()
    for row in trainable:
        name = adapter_of(row.name) if is_adapter(row.name) else ""
        if name:
            sizes[name] += row.elements
    return sizes


def _unwanted(evidence: Evidence, sizes: Dict[str, int]) -> Dict[str, int]:
    """Return the adapters that were not requested, if any of them gets gradients."""
    requested = evidence.request.adapters
    unwanted = {name: size for name, size in sizes.items() if requested and name not in requested}
    reached = {adapter_of(name) for name, states in evidence.gradients.items() if "nonzero" in states}
    return unwanted if reached & set(unwanted) else {}


def _listed(sizes: Dict[str, int]) -> str:
    return ", ".join(f"{name} ({size:,} weights)" for name, size in sizes.items())


def _optimizer_parameters(evidence: Evidence) -> Result:
    if not evidence.first.trained.optimizers:
        return NotChecked("optimizer-parameters", "no optimizer step was attempted")
    missing = [row.name for row in evidence.trainable if not row.optimized]
    foreign = sum(row.tensors for row in evidence.foreign)
    if evidence.master_weights:
        return passed("optimizer-parameters", f"the optimizer holds float32 copies of {len(missing)} trained tensors")
    if not missing and not foreign:
        return passed("optimizer-parameters", "the optimizer holds exactly the trainable tensors")
    return _judge_held(evidence, missing, foreign)


def _judge_held(evidence: Evidence, missing: List[str], foreign: int) -> Result:
    unused = _unused(evidence)
    unowned = foreign - len(evidence.uncalled)
    idle = unowned + len(unused)
    if not missing and not idle:
        message = f"the optimizer holds the trainable tensors, and {foreign} of modules that are read without a call"
        return passed("optimizer-parameters", message)
    stale = missing and (idle or any(is_adapter(name) for name in missing))
    if not stale or any(rank.trained.unoptimized_changed for rank in evidence.ranks):
        message = _outside(len(missing), unowned, len(unused))
        return warning("optimizer-parameters", message, where=some([*missing, *unused]))
    message = _outside(len(missing), 0, 0)
    if idle:
        message += f", and the optimizer holds {count(idle, 'tensor')} of no model that is used"
    return error("optimizer-parameters", message, where=some(missing))


def _unused(evidence: Evidence) -> List[str]:
    """Return the optimized tensors of modules that are not called, if no tensor of the module gets a gradient."""
    used = {_module_of(name) for name in evidence.uncalled if "nonzero" in evidence.gradients.get(name, ())}
    return [name for name in evidence.uncalled if _module_of(name) not in used]


def _module_of(name: str) -> str:
    return name.rpartition(".")[0]


def _outside(missing: int, unowned: int, unused: int) -> str:
    parts = (
        (missing, "trainable tensor", "in no optimizer"),
        (unowned, "optimized tensor", "in no module"),
        (unused, "optimized tensor", "in modules that are not called and get no gradient"),
    )
    found = ((count(number, noun), "is" if number == 1 else "are", where) for number, noun, where in parts if number)
    return ", and ".join(" ".join(words) for words in found)


def _optimizer_state(evidence: Evidence) -> Result:
    if not any(step.applied for step in evidence.steps):
        return NotChecked("optimizer-state-dtype", "no step was applied, so the optimizer has no state yet")
    rows = [row for rank in evidence.ranks for row in rank.trained.optimizer_state]
    half = [row for row in rows if row.dtype in HALF]
    if half:
        return _half_moments(evidence, half)
    kinds = " and ".join(sorted({row.dtype for row in rows}))
    return passed("optimizer-state-dtype", f"moments are {kinds}" if kinds else "the optimizer keeps no moments")


def _half_moments(evidence: Evidence, half: List[DtypeCount]) -> Result:
    if evidence.plan.mode in (Mode.FP16_PURE, Mode.BF16):
        return warning("optimizer-state-dtype", f"the optimizer keeps its moments in {half[0].dtype}")
    # bfloat16 has the range of float32, so its moments lose only precision, as its weights do.
    narrow = evidence.below_bf16 or any(row.dtype == "float16" for row in half)
    half_trained = narrow and any(row.dtype in HALF for row in evidence.dtypes("trainable"))
    grade = error if half_trained or evidence.nonfinite_weights else warning
    return grade(
        "optimizer-state-dtype",
        f"the optimizer keeps {sum(row.tensors for row in half)} moments in {half[0].dtype}",
        where=some(sorted({name for row in half for name in row.examples})),
        hint="pipeline fix --only trainable-fp32" if half_trained else "pipeline explain optimizer-state-dtype",
    )


def _cast_late(evidence: Evidence) -> Result:
    cast = [row for rank in evidence.ranks for row in rank.model.cast_after_optimizer]
    if not cast:
        return passed("optimizer-before-cast", "no parameter changed its dtype after the optimizer was built")
    first = cast[0]
    message = f"{len(cast)} parameters changed from {first.built_as} to {first.now} after the optimizer was built"
    grade = error if first.now == "float16" and evidence.has_float16("trainable") else warning
    return grade("optimizer-before-cast", message, where=first.name)


def _reduction(evidence: Evidence) -> Iterator[Result]:
    dtype = evidence.first.model.reduce_dtype
    if dtype == "bfloat16" and evidence.below_bf16:
        yield error(
            "reduce-dtype",
            "FSDP reduces gradients in bfloat16 on a card that only emulates it",
            hint="pipeline fix --only bf16-to-fp16",
        )
    elif dtype == "float16":
        yield warning("reduce-dtype", "FSDP reduces gradients in float16: sums over ranks overflow early")
    elif dtype:
        yield passed("reduce-dtype", f"FSDP reduces gradients in {dtype}")


def _tied(evidence: Evidence) -> Iterator[Result]:
    untied = evidence.first.trained.untied
    if untied is None:
        return
    if not (untied.differ and (untied.head_moved or untied.embedding_moved)):
        yield passed(
            "tied-weights", "embedding and head are two tensors with the same values, although the config ties them"
        )
        return
    message = f"the config ties {untied.head} to {untied.embedding}, but training changes them as two separate tensors"
    grade = error if untied.tied_when_loaded else warning
    hint = "train one tensor for both, or set config.tie_word_embeddings = False"
    yield grade("tied-weights", message, where=untied.head, hint=hint)
