"""Find out whether code runs under autocast, or without computing gradients."""

from __future__ import annotations

import ast
import re

from fixers.sources.expressions import assigned_before, tail_of, values_of
from fixers.sources.python import PythonSource

EVALUATION_NAMES = re.compile(
    r"_*(?:eval|valid|val_|test|metric|score|accuracy|perplex|infer|generate|predict|sample)\w*|\w+_metrics?"
)
NO_GRADIENT = ("no_grad", "inference_mode")


def is_under_autocast(source: PythonSource, node: ast.AST) -> bool:
    """Return True if the node is inside `with autocast(...)` or a function decorated with autocast."""
    return autocast_around(source, node) is not None


def is_called_under_autocast(source: PythonSource, node: ast.AST) -> bool:
    """Return True if this file calls the function around the node, and only under autocast."""
    function = source.names.function(node)
    if not isinstance(function, ast.FunctionDef) or isinstance(source.names.parent(function), ast.ClassDef):
        return False
    uses = [each for each in source.names.of_type(ast.Name) if each.id == function.name]
    return bool(uses) and all(is_under_autocast(source, each) for each in uses)


def is_evaluated(source: PythonSource, node: ast.AST) -> bool:
    """Return True if the node is inside a `no_grad` block or a function named like an evaluation or a metric."""
    for above in source.names.ancestors(node):
        if isinstance(above, (ast.With, ast.AsyncWith)):
            contexts = (each.context_expr for each in above.items)
            if any(isinstance(each, ast.Call) and tail_of(each) in NO_GRADIENT for each in contexts):
                return True
        elif isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_evaluation(above):
            return True
    return False


def is_predicted_without_gradient(source: PythonSource, prediction: ast.expr) -> bool:
    """Return True if the nearest assignment above to the first variable of the prediction is in an evaluation."""
    names = (each for each in ast.walk(prediction) if isinstance(each, ast.Name))
    first = min(names, key=lambda each: (each.lineno, each.col_offset), default=None)
    values = list(assigned_before(source, first, first.id)) if first is not None else []
    return bool(values) and is_evaluated(source, values[-1])


def _is_evaluation(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    named = EVALUATION_NAMES.fullmatch(function.name) is not None
    return named or any(_tail(each) in NO_GRADIENT for each in function.decorator_list)


def autocast_around(source: PythonSource, node: ast.AST) -> ast.AST | None:
    """Return the innermost autocast block or decorated function around the node, or None."""
    for above in source.names.ancestors(node):
        if isinstance(above, (ast.With, ast.AsyncWith)):
            if any(_is_autocast(source, item.context_expr) for item in above.items):
                return above
        elif isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return above if any(_tail(each) == "autocast" for each in above.decorator_list) else None
    return None


def _is_autocast(source: PythonSource, context: ast.expr) -> bool:
    match context:
        case ast.Call():
            return tail_of(context) in ("autocast", "autocast_context")
        case ast.Name(id=name):
            values = assigned_before(source, context, name)
            calls = (each for value in values for each in ast.walk(value) if isinstance(each, ast.Call))
            return any(tail_of(each) == "autocast" for each in calls)
    return False


def _tail(decorator: ast.expr) -> str:
    if isinstance(decorator, ast.Call):
        return tail_of(decorator)
    return decorator.attr if isinstance(decorator, ast.Attribute) else ""


def is_off(block: ast.AST) -> bool:
    """Return True for `with autocast(enabled=False)` and `with autocast(False)`."""
    calls = [each.context_expr for each in getattr(block, "items", ()) if isinstance(each.context_expr, ast.Call)]
    return any(
        isinstance(value, ast.Constant) and value.value is False
        for call in calls
        for value in (*call.args, *values_of(call))
    )
