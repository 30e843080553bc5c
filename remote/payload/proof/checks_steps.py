"""Checks of the optimizer steps: gradients, changes of weights, learning rate."""

from __future__ import annotations

from typing import Dict, Iterator, List, Tuple

from remote.payload.proof.evidence import Evidence, Result, error, passed, some, warning
from remote.payload.proof.hooks.rules import adapter_is_idle, is_adapter
from remote.protocol.dataclass import dataclass
from remote.protocol.proof import NotChecked

MOST_OF_A_RUN = 0.9
CALL_LAYERS = "call the layer: code that reads `layer.weight` itself skips the adapter of this layer"


def judge(evidence: Evidence) -> Iterator[Result]:
    yield _gradient_finite(evidence)
    yield from _coverage(evidence)
    yield _movement(evidence)
    yield from _between(evidence)
    yield from _average(evidence)
    yield from _rates(evidence)


def _gradient_finite(evidence: Evidence) -> Result:
    applied = [step for step in evidence.steps if step.applied]
    if not applied:
        return NotChecked("gradient-finite", "no step was applied")
    names = [name for name, states in evidence.gradients.items() if "nonfinite" in states]
    bad = evidence.nonfinite_weights
    if bad:
        cause = f"after {len(names)} gradients that were not finite" if names else "although all gradients were finite"
        return error("gradient-finite", f"{len(bad)} trained tensors are not finite, {cause}", where=some(bad))
    if names:
        message = f"{len(names)} gradients were not finite when the optimizer was called; the weights are finite"
        return warning("gradient-finite", message, where=some(names))
    norms = [step.applied_norm for step in applied if step.applied_norm is not None]
    return passed("gradient-finite", f"gradient norms {', '.join(f'{norm:.3g}' for norm in norms)}")


@dataclass(frozen=True)
class Coverage:
    """The trained tensors whose gradients were measured (`names`), and those without a gradient (`idle`).

    `uncalled` are the idle tensors of layers that no forward pass called.
    """

    names: Dict[str, str]
    idle: List[str]
    uncalled: List[str]

    @property
    def idle_adapters(self) -> List[str]:
        return [name for name in self.idle if is_adapter(name)]

    @property
    def adapters(self) -> int:
        return sum(is_adapter(name) for name in self.names)


def _find_coverage(evidence: Evidence) -> Coverage:
    """Find the tensors with gradients.

    The matrix A of a fresh LoRA has no gradient before B changes, so one step proves nothing about A.
    """
    states = {name: rows for name, rows in evidence.gradients.items() if rows}
    empty = {row.name for row in evidence.trainable if not row.elements}
    idle = [name for name, rows in states.items() if set(rows) <= {"none", "zero"} and name not in empty]
    if len(evidence.counted) == 1:
        idle = [name for name in idle if "lora_a" not in name.lower()]
    return Coverage({name: name for name in states}, idle, [name for name in idle if _is_uncalled(name, evidence)])


def _is_uncalled(name: str, evidence: Evidence) -> bool:
    """Return True if no rank called the layer of the tensor, or the layer that the tensor adapts."""
    parts = name.split(".")
    first = next((at for at, part in enumerate(parts) if is_adapter(part)), len(parts) - 1)
    layer = ".".join(parts[:first])
    return all(layer in rank.modules.uncalled for rank in evidence.ranks)


def _coverage(evidence: Evidence) -> Iterator[Result]:
    coverage = _find_coverage(evidence)
    if not evidence.counted or not coverage.names:
        yield NotChecked(
            "adapter-gradient", "no step was applied at a learning rate above 0, or its gradients were not measured"
        )
        return
    reentrant = evidence.flags.reentrant_without_gradient
    if coverage.idle and evidence.clipped_away:
        yield NotChecked("adapter-gradient", "clipping set all gradients to 0")
    else:
        yield _judge_coverage(coverage, len(evidence.counted), reentrant)
    if reentrant:
        lost = coverage.idle_adapters or len(coverage.idle) == len(coverage.names)
        yield (error if lost else warning)(
            "checkpoint-reentrant",
            "reentrant checkpointing got no input that requires a gradient, so no gradient passes through it",
            hint="gradient_checkpointing_kwargs={'use_reentrant': False}",
        )


def _judge_coverage(coverage: Coverage, steps: int, reentrant: bool) -> Result:
    idle, adapters = coverage.idle, coverage.idle_adapters
    if not idle:
        return passed("adapter-gradient", f"all {len(coverage.names)} trained tensors got gradients")
    lost = adapter_is_idle(coverage.names, idle) or (reentrant and bool(adapters))
    if lost and adapters:
        message = f"{len(adapters)} of {coverage.adapters} adapter tensors got no gradient in {steps} steps"
    elif lost:
        message = f"no trained tensor got a gradient in {steps} steps"
    else:
        message = f"{len(idle)} of {len(coverage.names)} trained tensors got no gradient in {steps} steps"
    shown = [name for name in coverage.uncalled if name in (adapters or idle)]
    if shown:
        message += f"; {len(shown)} of them belong to layers that the model never calls"
    hint = CALL_LAYERS if shown else ""
    return (error if lost else warning)("adapter-gradient", message, where=some(shown or adapters or idle), hint=hint)


def _movement(evidence: Evidence) -> Result:
    """Judge changes of weights.

    A parameter group with a learning rate of 0 is frozen by design, so it may stay unchanged. The matrix A of a fresh
    LoRA may change by less than its resolution for many steps. At the beginning of a warm-up, every tensor may change
    by less than its resolution.
    """
    steps, moved = len(evidence.counted), evidence.moved
    put_back = max((rank.trained.put_back for rank in evidence.ranks), default=0)
    if put_back:
        return _put_back(put_back)
    if steps < evidence.request.steps or not moved:
        needed = evidence.request.steps
        return NotChecked("adapter-moves", f"{steps} optimizer steps took effect, but {needed} are needed")
    still, shown = _still(evidence)
    if not any(moved.values()):
        grade = warning if _rate_rises(evidence) else error
        return grade("adapter-moves", f"no trained tensor changed in {steps} steps", where=some(shown))
    if still:
        message = f"{len(still)} of {len(moved)} trained tensors have gradients and did not change in {steps} steps"
        return warning("adapter-moves", message, where=some(shown))
    return passed("adapter-moves", f"{sum(moved.values())} of {len(moved)} trained tensors changed")


def _still(evidence: Evidence) -> Tuple[List[str], List[str]]:
    """Return the tensors that have gradients and did not change, and the tensors that the finding lists.

    If some of the tensors belong to an adapter, the finding lists only the adapter's tensors.
    """
    states = evidence.gradients
    still = [name for name, changed in evidence.moved.items() if not changed and "nonzero" in states.get(name, [])]
    return still, [name for name in still if is_adapter(name)] or still


def _put_back(times: int) -> Result:
    when = "each of" if times > 1 else "one of"
    message = f"before {when} the next steps, every trained tensor was reset to its initial values"
    return (error if times > 1 else warning)("adapter-moves", message)


def _rate_rises(evidence: Evidence) -> bool:
    rates = [step.learning_rate for step in evidence.counted if step.learning_rate is not None]
    return bool(rates) and rates[-1] > rates[0]


def _between(evidence: Evidence) -> Iterator[Result]:
    """Judge changes of weights between steps.

    Clamping, averaging and projection are normal; rounding to float16 is not. Rounding that occurred once is a warning,
    because a script may cast its model once, after a warm-up.
    """
    between = evidence.first.trained.changed_between_steps
    if max((rank.trained.put_back for rank in evidence.ranks), default=0):
        return
    if not between.changed:
        if len(evidence.counted) > 1:
            yield passed("weights-between", "only the optimizer changes trained tensors")
        return
    where = some(between.changed)
    if between.rounded:
        message = f"between steps, {len(between.rounded)} trained tensors are rounded to float16: small steps are lost"
        hint = "keep a copy in half precision for evaluating or saving, and leave the model as it is"
        grade = error if between.steps > 1 else warning
        yield grade("weights-between", message, where=some(between.rounded), hint=hint)
    else:
        message = f"{len(between.changed)} trained tensors change between steps, but not by the optimizer"
        yield warning("weights-between", message, where=where)


def _average(evidence: Evidence) -> Iterator[Result]:
    average = evidence.first.trained.average
    if average.stuck:
        kinds = " and ".join(average.dtypes)
        message = (
            f"{len(average.stuck)} averages of trained tensors are {kinds} and do not change when they are updated: "
            "the updates are too small for this dtype"
        )
        hint = "keep the average in float32, such as AveragedModel(model.float()) or copy.deepcopy(model).float()"
        yield warning("average-moves", message, where=some(average.stuck), hint=hint)
    elif average.judged:
        yield passed("average-moves", f"half-precision averages of {average.judged} trained tensors follow the tensors")


def _rates(evidence: Evidence) -> Iterator[Result]:
    if not evidence.steps:
        return
    known = [step.learning_rate for step in evidence.steps if step.learning_rate is not None]
    if not known:
        yield NotChecked("learning-rate", "the optimizer's learning rate cannot be read")
    elif any(known) and _ends_early(evidence):
        start, planned = evidence.first.zero_rate_from, evidence.request.run_steps
        message = f"the learning rate schedule is 0 from about step {start} of {planned}: later steps change nothing"
        yield warning("learning-rate", message, hint="give the schedule the number of optimizer steps of the whole run")
    elif any(known):
        yield passed("learning-rate", f"{known[0]:.3g} first, {known[-1]:.3g} last")
    else:
        grade = warning if any(step.scheduled for step in evidence.steps) else error
        message = f"the learning rate is 0 in all of {len(evidence.steps)} steps, so no weight changes"
        yield grade("learning-rate", message)


def _ends_early(evidence: Evidence) -> bool:
    start, planned = evidence.first.zero_rate_from, evidence.request.run_steps
    return start is not None and planned is not None and start < MOST_OF_A_RUN * planned
