"""Find the models that a file trains, from the arguments of trainers, optimizers, wrappers and `prepare`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.sources.expressions import tail_of, written
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import consumers_of, is_wrap

FROZEN = ("eval", "requires_grad_")


def may_train(source: PythonSource, load: ast.Call) -> bool:
    """Return True if the file trains the loaded model, or if its use is unknown and it is not in evaluation mode."""
    names = _names_given(source, load)
    trained = trained_models(source)
    if trained is not None and names and not _is_returned(source, load, names):
        return bool(names & trained)
    return not _is_frozen(source, load)


def _is_frozen(source: PythonSource, load: ast.Call) -> bool:
    above = source.names.parent(load)
    while isinstance(above, (ast.Attribute, ast.Call)):
        if isinstance(above, ast.Attribute) and above.attr in FROZEN:
            return True
        above = source.names.parent(above)
    return False


def trained_models(source: PythonSource) -> frozenset[str] | None:
    """Return every name of a trained model in this file, or None if the file has no trainer or a model has no name."""
    return source.remember("trained-models", lambda: _trained_models(source))


def _trained_models(source: PythonSource) -> frozenset[str] | None:
    owners = {consumer.owner for consumer in consumers_of(source)}
    if not owners or "" in owners:
        return None
    wraps = (call for call in source.names.of_type(ast.Call) if is_wrap(source, call))
    names = owners | {written(source, argument) for call in wraps for argument in call.args}
    links = tuple(_links(source))
    while True:
        more = {origin for name, origin in links if name in names} - names
        if not more:
            return frozenset(names - {""})
        names |= more


def _links(source: PythonSource) -> Iterator[tuple[str, str]]:
    """Yield (name, origin) for assignments and for arguments of functions of this file."""
    for assignment in source.names.of_type(ast.Assign):
        for origin in _origins(source, assignment.value):
            yield from ((written(source, target), origin) for target in assignment.targets)
    functions = {each.name: each.args for each in source.names.of_type(ast.FunctionDef)}
    for call in source.names.of_type(ast.Call):
        arguments = functions.get(tail_of(call))
        if arguments is None:
            continue
        positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        skipped = 1 if isinstance(call.func, ast.Attribute) and positional[:1] == ["self"] else 0
        given = [
            *zip(positional[skipped:], call.args, strict=False),
            *((each.arg, each.value) for each in call.keywords),
        ]
        yield from ((name, origin) for name, value in given if name for origin in _origins(source, value))


def _origins(source: PythonSource, value: ast.expr) -> Iterator[str]:
    """Yield the names that the value may refer to: the name, the object of a method call, or the wrapped argument."""
    match value:
        case ast.Name() | ast.Attribute():
            yield written(source, value)
        case ast.IfExp():
            yield from _origins(source, value.body)
            yield from _origins(source, value.orelse)
        case ast.Call():
            if isinstance(value.func, ast.Attribute):
                yield from _origins(source, value.func.value)
            for given in (*value.args[:1], *(each.value for each in value.keywords if each.arg == "model")):
                yield from _origins(source, given)


def _names_given(source: PythonSource, load: ast.Call) -> set[str]:
    statement = source.names.statement(load)
    if isinstance(statement, ast.AnnAssign):
        return {written(source, statement.target)} - {""}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {written(source, target) for target in targets} - {""}


def _is_returned(source: PythonSource, load: ast.Call, names: set[str]) -> bool:
    function = source.names.function(load)
    returned = (each.value for each in source.names.of_type(ast.Return) if source.names.function(each) is function)
    given = {
        written(source, node)
        for value in returned
        if isinstance(function, FUNCTIONS) and value
        for node in ast.walk(value)
    }
    return bool(given & names)
