"""Find calls of a trained model's own methods outside autocast, which Accelerate puts around `forward` only."""

from __future__ import annotations

import ast
import re

from fixers.sources.expressions import tail_of, written
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import Consumer, function_of

METHODS = frozenset({"encode", "decode"})
PREPARES = re.compile(rb"\bAccelerator\(")
OUTSIDE_AUTOCAST = "this method of the model is called outside autocast: float32 weights would get float16 inputs"
CALL_BY_HAND = "call the method under accelerator.autocast(), then run the fixers again"


def call_outside_autocast(python: PythonSource, consumer: Consumer) -> ast.Call | None:
    """Return the first call of `encode` or `decode` of the trained model, if Accelerate prepares it, or None."""
    if not consumer.owner or not PREPARES.search(python.text):
        return None
    for call in python.names.of_type(ast.Call):
        if call.lineno <= consumer.call.lineno or not isinstance(call.func, ast.Attribute):
            continue
        same = call.func.attr in METHODS and _is_model(python, call.func.value, consumer.owner)
        if same and function_of(python, call) is function_of(python, consumer.call) and not _is_apart(python, call):
            return call
    return None


def _is_model(python: PythonSource, value: ast.expr, owner: str) -> bool:
    """Return True for the model, its `module`, and the result of a function such as `unwrap_model`."""
    if isinstance(value, ast.Call):
        return "unwrap" in tail_of(value) and len(value.args) == 1 and _is_model(python, value.args[0], owner)
    return written(python, value) in (owner, f"{owner}.module")


def _is_apart(python: PythonSource, call: ast.Call) -> bool:
    """Return True if the call is under autocast, or computes no gradients."""
    above = (each for each in python.names.ancestors(call) if isinstance(each, ast.With))
    items = [python.segment(item.context_expr) for each in above for item in each.items]
    return any("autocast" in each or "no_grad" in each or "inference_mode" in each for each in items)
