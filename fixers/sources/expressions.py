"""Source text of names and calls, and the values assigned to a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.sources.python import PythonSource


def tail_of(call: ast.Call) -> str:
    """Return the last component of the called name: `step` for `optimizer.step()`."""
    function = call.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def written(source: PythonSource, node: ast.AST) -> str:
    """Return the source text of a name or attribute, or an empty string for any other node."""
    return source.segment(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def is_path(node: ast.expr) -> bool:
    """Return True for a dotted name, such as `model` or `self.model`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def values_of(call: ast.Call) -> list[ast.expr]:
    """Return the values of the keyword arguments."""
    return [keyword.value for keyword in call.keywords]


def assigned_before(source: PythonSource, before: ast.expr, name: str) -> Iterator[ast.expr]:
    """Yield the values that the function around `before` assigns to the name, up to the line of `before`."""
    function = source.names.function(before)
    for node in source.remember("assignments", lambda: _assignments(source)).get(name, ()):
        if node.lineno <= before.lineno and source.names.function(node) is function:
            yield node.value


def _assignments(source: PythonSource) -> dict[str, list[ast.Assign]]:
    """Return the assignments to each name, in file order."""
    found: dict[str, list[ast.Assign]] = {}
    for node in source.names.of_type(ast.Assign):
        for name in {target.id for target in node.targets if isinstance(target, ast.Name)}:
            found.setdefault(name, []).append(node)
    return found
