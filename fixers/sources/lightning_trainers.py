"""Find out whether a file uses a Lightning Trainer only for evaluation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.sources.expressions import tail_of
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import PythonSource

ONLY_RUNS = frozenset({"test", "validate", "predict"})
TRAINS = frozenset({"fit"})


def only_evaluates(source: PythonSource, node: ast.expr) -> bool:
    """Return True for an argument of a Trainer that only calls `test`, `validate` or `predict`, and never `fit`."""
    call = next((each for each in source.names.ancestors(node) if isinstance(each, ast.Call)), None)
    if call is None or tail_of(call) != "Trainer":
        return False
    uses = [use for made in _results(source, call) for use in _uses(source, made)]
    return bool(uses) and None not in uses and not TRAINS.intersection(uses) and bool(ONLY_RUNS.intersection(uses))


def _results(source: PythonSource, call: ast.Call) -> Iterator[ast.Call]:
    """Yield the call. If a function returns the result of the call, yield the calls of that function instead."""
    above = source.names.parent(call)
    function = source.names.function(call)
    if not isinstance(above, ast.Return) or not isinstance(function, FUNCTIONS) or isinstance(function, ast.Lambda):
        yield call
        return
    yield from (each for each in source.names.of_type(ast.Call) if tail_of(each) == function.name)


def _uses(source: PythonSource, made: ast.Call) -> Iterator[str | None]:
    """Yield each method called on the result, until the variable is reassigned.

    Yield None for a use that cannot be followed.
    """
    above = source.names.parent(made)
    match above:
        case ast.Attribute(attr=method):
            yield method
        case ast.Assign(targets=[ast.Name(id=name)]):
            yield from _uses_of_name(source, name, made)
        case _:
            yield None


def _uses_of_name(source: PythonSource, name: str, made: ast.Call) -> Iterator[str | None]:
    within = source.names.function(made)
    named = [each for each in source.names.of_type(ast.Name) if each.id == name]
    uses = [each for each in named if source.names.function(each) is within and each.lineno > made.lineno]
    ends = min((each.lineno for each in uses if isinstance(each.ctx, ast.Store)), default=None)
    for each in uses:
        if isinstance(each.ctx, ast.Load) and (ends is None or each.lineno < ends):
            above = source.names.parent(each)
            yield above.attr if isinstance(above, ast.Attribute) else None
