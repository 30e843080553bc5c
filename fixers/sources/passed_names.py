"""Follow a variable through the parameters of functions: `def train(optimizer=optimizer)`, `train(optimizer)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.sources.names import Scope
from fixers.sources.python import PythonSource

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def means_variable(
    source: PythonSource, name: str, scope: Scope, home: Scope, seen: frozenset[ast.AST] = frozenset()
) -> bool:
    """Return True if the name refers, in this scope, to the variable of this name in the scope `home`.

    Also True for a parameter of the same name, in a function within `home`, if the variable is its default or every
    call in this file passes the variable. `seen` contains the functions that are followed already.
    """
    binding = binding_scope(scope, name)
    if binding is home:
        return True
    function = binding.node
    if not isinstance(function, FUNCTIONS) or not _is_within(binding, home):
        return False
    if function in seen:
        return True
    given = _given(source, function, name)
    return bool(given) and all(
        isinstance(each, ast.Name)
        and each.id == name
        and means_variable(source, name, source.names.scopes[each], home, seen | {function})
        for each in given
    )


def binding_scope(scope: Scope, name: str) -> Scope:
    """Return the scope that binds the name, or the module's scope."""
    while scope.parent is not None and name not in scope.bindings:
        scope = scope.parent
    return scope


def _is_within(scope: Scope, home: Scope) -> bool:
    above: Scope | None = scope
    while above is not None and above is not home:
        above = above.parent
    return above is home


def _given(source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef, parameter: str) -> list[ast.expr]:
    """Return the parameter's default and the values that calls pass, or nothing if the values are unknown."""
    outer, inner = source.names.scopes[function], source.names.scopes[function.body[0]]
    alone = outer.bindings.get(function.name) == [None] and not isinstance(outer.node, ast.ClassDef)
    if not alone or inner.bindings[parameter] != [None] or not _keeps_arguments(source, function):
        return []
    default, passed = _default(function.args, parameter), list(_passed(source, function, outer, parameter))
    if default is None and None in passed:
        return []
    return [each for each in (default, *passed) if each is not None]


def _keeps_arguments(source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if the function's decorators, if any, belong to torch."""
    called = [each.func if isinstance(each, ast.Call) else each for each in function.decorator_list]
    return all((source.names.meaning(each) or "").startswith("torch.") for each in called)


def _default(arguments: ast.arguments, parameter: str) -> ast.expr | None:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    pairs = zip(
        (*positional, *arguments.kwonlyargs), (*defaults, *arguments.defaults, *arguments.kw_defaults), strict=True
    )
    return next((default for each, default in pairs if each.arg == parameter), None)


def _passed(
    source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef, outer: Scope, parameter: str
) -> Iterator[ast.expr | None]:
    """Yield the value that each use of the function passes for the parameter, or None if the use passes none.

    For a use that is no call, and for a call that unpacks arguments, yield the use itself.
    """
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    position = names.index(parameter) if parameter in names else None
    for use in source.names.of_type(ast.Name):
        if use.id == function.name and binding_scope(source.names.scopes[use], use.id) is outer:
            call = source.names.parent(use)
            if isinstance(call, ast.Call) and call.func is use and not _unpacks(call):
                by_name = (each.value for each in call.keywords if each.arg == parameter)
                by_position = call.args[position : position + 1] if position is not None else []
                yield next(iter((*by_name, *by_position)), None)
            else:
                yield use


def _unpacks(call: ast.Call) -> bool:
    return any(isinstance(each, ast.Starred) for each in call.args) or any(not each.arg for each in call.keywords)
