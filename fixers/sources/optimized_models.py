"""Find the models whose parameters are passed to an optimizer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.sources.expressions import assigned_before, is_path, tail_of, values_of, written
from fixers.sources.python import PythonSource

PARAMETERS = frozenset({"parameters", "named_parameters", "get_trainable_parameters", "trainable_parameters"})
MAKES_OPTIMIZER = re.compile(r"(?:build|make|create|get|set_?up|init|configure)_?\w*[Oo]ptim(?:izers?)?$")
GROUPS = re.compile(r"(?:get|make|build|create|group)_\w*param(?:eter)?(?:s|_groups)?")
MODEL = re.compile(r"(?:^|[._])(?:model|student|llm)$")


def named_owners(source: PythonSource, call: ast.Call) -> tuple[str, ...]:
    """Return the models whose parameters are passed to the call, directly or through one variable."""
    given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "params")]
    found = [owner for each in given for owner in _owners_in(source, each)]
    if not found:
        for name in (each.id for each in given if isinstance(each, ast.Name)):
            for value in assigned_before(source, call, name):
                found += _owners_in(source, value) if _is_collection(value) else _owners_grouped(source, value)
    if not found:
        found = [owner for each in given if isinstance(each, ast.Call) for owner in _owners_returned_by(source, each)]
    return tuple(dict.fromkeys(found))


def _owners_grouped(source: PythonSource, value: ast.expr) -> Iterator[str]:
    """Yield the models passed to another file's function that groups parameters: `get_grouped_parameters(model)`."""
    if isinstance(value, ast.Call) and GROUPS.fullmatch(tail_of(value)):
        own = any(each.name == tail_of(value) for each in source.names.of_type(ast.FunctionDef))
        given = () if own else (written(source, each) for each in (*value.args, *values_of(value)))
        yield from (each for each in given if MODEL.search(each))


def _owners_returned_by(source: PythonSource, call: ast.Call) -> Iterator[str]:
    """Yield the models whose parameters a function in this file returns, by their names in the calling function."""
    functions = [each for each in source.names.of_type(ast.FunctionDef) if each.name == tail_of(call)]
    if len(functions) != 1:
        return
    inside = [owner for part in functions[0].body for owner in _owners_in(source, part)]
    is_method, given = _bound_arguments(functions[0], call)
    same_object = is_method and written(source, call.func).startswith("self.")
    for owner in dict.fromkeys(inside):
        if same_object and owner.startswith("self."):
            yield owner
        elif owner in given and is_path(given[owner]):
            yield written(source, given[owner])


def _bound_arguments(function: ast.FunctionDef, call: ast.Call) -> tuple[bool, dict[str, ast.expr]]:
    """Return whether the call is a method call, and its arguments by parameter name."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    bound = isinstance(call.func, ast.Attribute) and names[:1] == ["self"]
    given = dict(zip(names[1:] if bound else names, call.args, strict=False))
    return bound, given | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _is_collection(value: ast.expr) -> bool:
    """Return True for an expression that only selects or groups parameters."""
    if isinstance(value, ast.Call):
        return tail_of(value) in (*PARAMETERS, "list", "tuple", "filter", "chain", "sorted", "iter")
    return isinstance(value, (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp, ast.BinOp, ast.IfExp))


def _owners_in(source: PythonSource, expression: ast.expr | ast.stmt) -> Iterator[str]:
    for node in ast.walk(expression):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value
        if node.func.attr in PARAMETERS and is_path(owner) and _is_visible(source, owner):
            yield written(source, owner)


def models_of_factory(source: PythonSource, call: ast.Call, tail: str) -> tuple[str, ...]:
    """Return the models passed to an optimizer factory from another file, such as `build_optimizer(model, lr)`."""
    of_this_file = any(each.name == tail for each in source.names.of_type(ast.FunctionDef))
    of_this_object = written(source, call.func).partition(".")[0] in ("self", "cls")
    if of_this_file or of_this_object or not MAKES_OPTIMIZER.match(tail):
        return ()
    given = [written(source, each) for each in (*call.args, *values_of(call))]
    return tuple(dict.fromkeys(each for each in given if MODEL.search(each)))


def are_float32(source: PythonSource, call: ast.Call) -> bool:
    """Return True if the argument is a list of float32 copies: `[p.detach().clone().float() for p in parameters]`."""
    names = [each.id for each in call.args[:1] if isinstance(each, ast.Name)]
    values = [value for name in names for value in assigned_before(source, call, name)]
    copies = [value.elt for value in values if isinstance(value, (ast.ListComp, ast.GeneratorExp))]
    return bool(copies) and all(isinstance(each, ast.Call) and makes_float32(source, each) for each in copies)


def makes_float32(source: PythonSource, call: ast.Call) -> bool:
    """Return True for `.float()`, or `.to` with float32."""
    tail = tail_of(call)
    if tail == "float" and isinstance(call.func, ast.Attribute) and not call.args:
        return True
    wanted = ("torch.float32", "torch.float")
    return tail == "to" and any(source.names.meaning(each) in wanted for each in (*call.args, *values_of(call)))


def _is_visible(source: PythonSource, node: ast.expr) -> bool:
    """Return False for a name that exists only inside a comprehension or lambda."""
    while isinstance(node, ast.Attribute):
        node = node.value
    assert isinstance(node, ast.Name)
    scope = source.names.scopes[node]
    while not isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module, ast.ClassDef)):
        if node.id in scope.bindings or scope.parent is None:
            return False
        scope = scope.parent
    return True
