"""Find gradients that are clipped, or applied by an optimizer, before a loss scaler has unscaled them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from fixers.code.draft import Draft
from fixers.frame.target import Target
from fixers.sources.expressions import tail_of
from fixers.sources.lines import holds_any
from fixers.sources.python import PythonSource
from remote.policy.precision import BF16_FROM

CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")
UNSCALES = re.compile(r"unscale\w*|_unscale\w*")
ACCELERATOR = re.compile(r"(?:\w+\.)*_?accelerator")
SCALED = "the gradients are clipped before they are unscaled: the limit applies to values that are 65536 times as large"
LIGHTNING_HINT = "self.trainer.precision_plugin.scaler.unscale_(optimizer)"
UNPREPARED = (
    "accelerate does not prepare the models or optimizers inside {made}: in fp16 these get no autocast, and gradients"
    " stay multiplied by the loss scale"
)
UNPREPARED_HINT = "prepare each model and each optimizer in it"


def may_scale(data: bytes) -> bool:
    """Return True if the file may scale its loss in one of the ways that `report_scaled` checks."""
    return holds_any(data, (b".scale(", b"accelerate", b"accelerator", b"manual_backward("))


def report_scaled(draft: Draft, target: Target) -> None:
    """Report optimizers that accelerate does not prepare, and clipping of gradients that are still scaled.

    Clipping is reported once per file. It is not reported if the file, or a function that it calls, unscales the
    gradients. DeepSpeed unscales gradients before it clips them.
    """
    source = draft.source
    _report_unprepared(draft, target.code_facts.traits.optimizer_containers)
    calls = source.names.of_type(ast.Call)
    if _are_unscaled(calls, source.path, target):
        return
    backwards = [call for call in calls if tail_of(call) in ("backward", "manual_backward")]
    for clipping in (call for call in calls if _clips(source, call)):
        own = [each for each in backwards if source.names.function(each) is source.names.function(clipping)]
        hint = next(filter(None, (_hint(source, each, target) for each in own or backwards)), "")
        if hint:
            draft.warn(clipping, SCALED, hint=hint)
            return


def _are_unscaled(calls: Collection[ast.Call], path: str, target: Target) -> bool:
    """Return True if a call unscales the gradients, or if the file runs only under DeepSpeed, which unscales them."""
    facts = target.code_facts
    if path in facts.deepspeed_only and not target.started:
        return True
    return any(UNSCALES.fullmatch(tail_of(call)) or tail_of(call) in facts.traits.unscalers for call in calls)


def _clips(source: PythonSource, call: ast.Call) -> bool:
    """Return True for torch's clipping functions, and for Lightning's `self.clip_gradients`."""
    return source.names.meaning(call.func) in CLIPS or source.segment(call.func) == "self.clip_gradients"


def _hint(source: PythonSource, backward: ast.Call, target: Target) -> str:
    """Return the hint for unscaling the gradients of this `backward` call, or "" if they are not scaled."""
    match backward.func:
        case ast.Attribute(value=ast.Call(func=ast.Attribute(attr="scale", value=scaler))):
            return f"{source.segment(scaler)}.unscale_(optimizer)"
        case ast.Attribute(attr="manual_backward", value=ast.Name(id="self")) if _is_manual(source, target):
            return LIGHTNING_HINT
        case ast.Attribute(attr="backward", value=owner) if backward.args and _is_accelerator(source, owner, target):
            return f"{source.segment(owner)}.clip_grad_norm_"
    return ""


def _is_manual(source: PythonSource, target: Target) -> bool:
    """Return True for manual optimization of Lightning in a project that trains in mixed precision.

    Lightning unscales gradients in the optimizer's step, after a manual clipping.
    """
    return b"automatic_optimization" in source.text and target.code_facts.traits.mixed and target.below(BF16_FROM)


def _is_accelerator(source: PythonSource, owner: ast.expr, target: Target) -> bool:
    """Return True for an Accelerator that may train in float16.

    If it has no argument, `accelerate launch` selects the dtype.
    """
    name = source.segment(owner)
    made = [
        assignment.value
        for assignment in source.names.of_type(ast.Assign)
        if name in map(source.segment, assignment.targets) and isinstance(assignment.value, ast.Call)
    ]
    made = [call for call in made if (source.names.meaning(call.func) or "").startswith("accelerate.")]
    given = [each.value for call in made for each in call.keywords if each.arg == "mixed_precision"]
    words = [each.value for each in given if isinstance(each, ast.Constant)]
    if words:
        return "fp16" in words
    return target.below(BF16_FROM) and (bool(made) or ACCELERATOR.fullmatch(name) is not None)


def _report_unprepared(draft: Draft, groups: Collection[str]) -> None:
    """Report the first argument of `prepare` that contains models or optimizers but is no model or optimizer."""
    source = draft.source
    for call in source.names.of_type(ast.Call) if groups else ():
        if tail_of(call) != "prepare" or not isinstance(call.func, ast.Attribute):
            continue
        for name in (each.id for each in call.args if isinstance(each, ast.Name)):
            made = {tail_of(value) for value in _calls_assigned_to(source, name)} & set(groups)
            if made and ACCELERATOR.fullmatch(source.segment(call.func.value)):
                draft.warn(call, UNPREPARED.format(made=f"`{name}` of {made.pop()}()"), hint=UNPREPARED_HINT)
                return


def _calls_assigned_to(source: PythonSource, name: str) -> list[ast.Call]:
    """Return the calls whose results are assigned to the name."""
    assignments = source.names.of_type(ast.Assign)
    same = (each.value for each in assignments if any(source.segment(target) == name for target in each.targets))
    return [each for each in same if isinstance(each, ast.Call)]
