"""What else must change where 16-mixed replaces Lightning's `bf16-true`."""

from __future__ import annotations

import ast

from fixers.code.draft import Draft
from fixers.sources.expressions import tail_of, written
from fixers.sources.python import PythonSource

TRUE_WORD = "bf16-true"
PLUGINS = ("HalfPrecision", "HalfPrecisionPlugin", "FSDPPrecision", "FSDPPrecisionPlugin", "DeepSpeedPrecision")
CLIPS = ("clip_grad_norm_", "clip_grad_value_")
SCALES = ("scale", "unscale_", "unscale_gradients")
LEFT = "bf16-true stays: "


def refuse_plugin(draft: Draft, node: ast.Constant) -> None:
    """Refuse `plugins=[HalfPrecision("bf16-true")]`, which casts weights and never scales a loss."""
    call = draft.source.names.parent(node)
    call = draft.source.names.parent(call) if isinstance(call, ast.keyword) else call
    if isinstance(call, ast.Call) and tail_of(call) in PLUGINS:
        message = f"{LEFT}{tail_of(call)} casts all weights, and float16 weights cannot be trained with a loss scale"
        draft.refuse(node, message, hint='remove the plugin, and pass precision="16-mixed"')


def unscaled_step(source: PythonSource) -> tuple[str, str] | None:
    """Return why a Fabric loop would break under 16-mixed, and the repair; None if Fabric scales and clips itself."""
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
