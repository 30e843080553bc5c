"""Checks for code in which 16-mixed replaces Lightning's `bf16-true`."""

from __future__ import annotations

import ast
import re

from fixers.code.draft import Draft
from fixers.sources.expressions import tail_of, written
from fixers.sources.python import PythonSource

TRUE_WORD = "bf16-true"
PLUGINS = ("HalfPrecision", "HalfPrecisionPlugin", "FSDPPrecision", "FSDPPrecisionPlugin", "DeepSpeedPrecision")
CLIPS = ("clip_grad_norm_", "clip_grad_value_")
SCALES = ("scale", "unscale_", "unscale_gradients")
FLOAT32_WEIGHTS = "16-mixed creates these weights in float32 and needs twice the memory of bf16-true for them"
LEFT = "bf16-true is not replaced: "
FROZEN = LEFT + "under 16-mixed, {place} stores the frozen weights in float32 and needs twice the memory for them"
FREEZES = re.compile(rb"requires_grad_\(\s*False|requires_grad[ ]*=[ ]*False|get_peft_model|mark_only_lora")
LOAD_IN_HALF = 'load the frozen weights in float16, and pass precision="16-mixed"'


def refuse_plugin(draft: Draft, node: ast.Constant) -> None:
    """Report an error for `plugins=[HalfPrecision("bf16-true")]`, which casts weights and never scales the loss."""
    call = draft.source.names.parent(node)
    call = draft.source.names.parent(call) if isinstance(call, ast.keyword) else call
    if isinstance(call, ast.Call) and tail_of(call) in PLUGINS:
        message = f"{LEFT}{tail_of(call)} casts all weights, and float16 weights cannot be trained with a loss scale"
        draft.refuse(node, message, hint='remove the plugin, and pass precision="16-mixed"')


def warn_of_memory(draft: Draft) -> None:
    """Report code in which Fabric creates a model in the dtype of its precision: float32 for 16-mixed."""
    for call in draft.source.names.of_type(ast.Call):
        if tail_of(call) == "init_module" and not call.args:
            draft.warn(call, FLOAT32_WEIGHTS, hint="check that the frozen weights fit into the card's memory")
            return


def keeps_frozen_weights(draft: Draft, node: ast.Constant, frozen_loads: tuple[str, ...]) -> bool:
    """Report frozen weights that 16-mixed would hold in float32, and return True if there are any.

    If the project loads these weights, this is an error: the project's other files now use float16, and float16 inputs
    do not work with bfloat16 weights.
    """
    if frozen_loads:
        draft.refuse(node, FROZEN.format(place=frozen_loads[0]), hint=LOAD_IN_HALF)
        return True
    made = [call for call in draft.source.names.of_type(ast.Call) if tail_of(call) == "init_module" and not call.args]
    if not made or not FREEZES.search(draft.source.text):
        return False
    place = f"init_module in line {made[0].lineno}"
    draft.warn(node, FROZEN.format(place=place), hint=LOAD_IN_HALF)
    return True


def unscaled_step(source: PythonSource) -> tuple[str, str] | None:
    """Return the reason why a Fabric loop fails in 16-mixed, and the hint. Return None if no such loop is found."""
    if not any(tail_of(call) == "Fabric" for call in source.names.of_type(ast.Call)):
        return None
    if any(tail_of(call) in SCALES for call in source.names.of_type(ast.Call)):
        return None
    for call in source.names.of_type(ast.Call):
        owner = written(source, call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if tail_of(call) == "backward" and not call.args and not call.keywords:
            return _why(source, call, "is not scaled"), f"fabric.backward({owner})"
        if tail_of(call) in CLIPS:
            return _why(source, call, "clips scaled gradients"), "fabric.clip_gradients(model, optimizer, max_norm=1.0)"
    return None


def _why(source: PythonSource, call: ast.Call, problem: str) -> str:
    return f"{LEFT}under 16-mixed, {written(source, call.func)} in line {call.lineno} {problem}"
