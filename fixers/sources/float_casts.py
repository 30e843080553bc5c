"""Casts of a model's trainable parameters to float32: loops, library calls and functions of the same file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.sources.expressions import tail_of, values_of, written
from fixers.sources.optimized_models import makes_float32
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import mentions

MODULES = frozenset({"modules", "named_modules", "children", "named_children"})
CASTERS = frozenset({"cast_mixed_precision_params", "cast_training_params"})


def is_cast(source: PythonSource, statement: ast.stmt, owner: str) -> bool:
    """Return True if the statement casts the model's trainable parameters to float32."""
    if isinstance(statement, ast.For):
        return _is_cast_loop(source, statement, owner)
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call):
        return False
    if isinstance(call.func, ast.Attribute) and written(source, call.func.value) == owner:
        return makes_float32(source, call)
    if not mentions(source, [*call.args, *values_of(call)], owner):
        return False
    return tail_of(call) in CASTERS or tail_of(call) in _casting_functions(source)


def _is_cast_loop(source: PythonSource, loop: ast.For, owner: str) -> bool:
    """Return True if the loop stores its float32 results in place: in `.data`, or by `.to` on modules."""
    if not mentions(source, [loop.iter], owner):
        return False
    keeps = any(isinstance(each, ast.Call) and tail_of(each) in MODULES for each in ast.walk(loop.iter))
    for node in (node for part in loop.body for node in ast.walk(part)):
        match node:
            case ast.Assign(targets=[ast.Attribute(attr="data")], value=value):
                if any(isinstance(each, ast.Call) and makes_float32(source, each) for each in ast.walk(value)):
                    return True
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name())) as call) if keeps:
                if makes_float32(source, call):
                    return True
    return False


def _casting_functions(source: PythonSource) -> frozenset[str]:
    """Return the functions of this file that loop over parameters and cast trainable ones to float32."""
    return source.remember("casting-functions", lambda: frozenset(_find_casting_functions(source)))


def _find_casting_functions(source: PythonSource) -> Iterator[str]:
    for function in source.names.of_type(ast.FunctionDef):
        for node in ast.walk(function):
            if (
                isinstance(node, ast.For)
                and "requires_grad" in source.segment(node)
                and _is_cast_loop(source, node, "")
            ):
                yield function.name
