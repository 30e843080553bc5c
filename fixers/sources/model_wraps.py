"""Where a model is wrapped to be sharded or replicated: its parameters must have their dtype before."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.sources.expressions import tail_of
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import SIMPLE, block_of, function_of, wraps_model

FLATTENS = ("FSDP", "FullyShardedDataParallel")
WRAPS_APART = re.compile(
    rb"fsdp_auto_wrap_policy|lambda_auto_wrap_policy|LambdaPolicy|BitsAndBytesConfig|load_in_[48]bit|bnb_4bit"
)


def before_wrap(python: PythonSource, place: ast.stmt, owner: str) -> tuple[ast.stmt, str]:
    """Where the model is wrapped earlier in the same block, the cast belongs before that, under the inner name."""
    block = block_of(python, place)
    for earlier in reversed(block[: block.index(place)]):
        for call in calls_in(earlier):
            inner = _wrapped(python, earlier, call, owner)
            if inner is not None and isinstance(earlier, SIMPLE):
                return before_wrap(python, earlier, inner)
            if inner is not None and _assigned_before(python, earlier, inner):
                return before_wrap(python, earlier, inner)
    return place, owner


def _wrapped(python: PythonSource, statement: ast.stmt, call: ast.Call, owner: str) -> str | None:
    """The name of the model that the call wraps, where the result is the owner or the owner itself is wrapped."""
    if wraps_model(python, call, owner):
        return owner
    if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
        given = [python.segment(each) for each in call.args[:1] if isinstance(each, (ast.Name, ast.Attribute))]
        if given and python.segment(statement.targets[0]) == owner and wraps_model(python, call, given[0]):
            return given[0]
    return None


def _assigned_before(python: PythonSource, statement: ast.stmt, owner: str) -> bool:
    block = block_of(python, statement)
    root = owner.partition(".")[0]
    function = function_of(python, statement)
    if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        if root in {argument.arg for argument in arguments}:
            return True
    earlier = block[: block.index(statement)]
    return any(
        isinstance(node, ast.Name) and node.id == root and isinstance(node.ctx, ast.Store)
        for each in earlier
        for node in ast.walk(each)
    )


def flattening(python: PythonSource, place: ast.stmt, owner: str) -> list[ast.stmt]:
    """Where FSDP flattens that model, at the place or in it: frozen parameters lie beside trained ones in one tensor.

    It refuses two dtypes there. None where a policy wraps what is trained by itself, or where weights are quantised.
    """
    if WRAPS_APART.search(python.text):
        return []
    calls = [call for call in calls_in(place) if tail_of(call) in FLATTENS and wraps_model(python, call, owner)]
    statements = dict.fromkeys(python.names.statement(call) for call in calls)
    return [each for each in statements if isinstance(each, SIMPLE)]


def calls_in(statement: ast.stmt) -> Iterator[ast.Call]:
    """Every call in the statement, and in those it holds."""
    return (node for node in ast.walk(statement) if isinstance(node, ast.Call))
