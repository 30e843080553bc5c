"""Clipping of gradients that a loss scaler has not unscaled."""

from __future__ import annotations

import ast
import re

from fixers.code.draft import Draft
from fixers.sources.expressions import tail_of
from fixers.sources.lines import holds_any
from fixers.sources.python import PythonSource

CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")
UNSCALES = re.compile(r"unscale\w*|_unscale\w*")
SCALED = "the gradients are clipped before they are unscaled: the limit applies to values that are 65536 times as large"


def may_scale(data: bytes) -> bool:
    """Return True if the file may scale its loss in a way that `report_clipping` knows."""
    return holds_any(data, (b".scale(", b"accelerate"))


def report_clipping(draft: Draft) -> None:
    """Report the first clipping with torch's functions in a file that scales its loss and never unscales."""
    source = draft.source
    calls = source.names.of_type(ast.Call)
    if any(UNSCALES.fullmatch(tail_of(call)) for call in calls):
        return
    clipping = next((call for call in calls if source.names.meaning(call.func) in CLIPS), None)
    hint = _hint(source) if clipping is not None else ""
    if clipping is not None and hint:
        draft.warn(clipping, SCALED, hint=hint)


def _hint(source: PythonSource) -> str:
    """Return how to unscale, by the scaler of `scaler.scale(loss).backward()` or by accelerate; empty if neither."""
    for call in source.names.of_type(ast.Call):
        match call.func:
            case ast.Attribute(attr="backward", value=ast.Call(func=ast.Attribute(attr="scale", value=scaler))):
                return f"{source.segment(scaler)}.unscale_(optimizer)"
            case ast.Attribute(attr="backward", value=owner) if call.args and _is_accelerator(source, owner):
                return f"{source.segment(owner)}.clip_grad_norm_"
    return ""


def _is_accelerator(source: PythonSource, owner: ast.expr) -> bool:
    """Return True for a name to which the file assigns an Accelerator of accelerate with float16 as its precision."""
    name = source.segment(owner)
    for assignment in source.names.of_type(ast.Assign):
        if name in map(source.segment, assignment.targets) and isinstance(assignment.value, ast.Call):
            made = assignment.value
            given = [each.value for each in made.keywords if each.arg == "mixed_precision"]
            halves = any(isinstance(each, ast.Constant) and each.value == "fp16" for each in given)
            if (source.names.meaning(made.func) or "").startswith("accelerate.") and halves:
                return True
    return False
