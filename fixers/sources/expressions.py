"""Names and calls as they are written, and what a name was given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.sources.python import PythonSource


def tail_of(call: ast.Call) -> str:
    """The last name of what is called."""
    function = call.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def written(source: PythonSource, node: ast.AST) -> str:
    """A name or an attribute as it is written; empty for anything else."""
    return source.segment(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def is_path(node: ast.expr) -> bool:
    """A name, or an attribute of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def values_of(call: ast.Call) -> list[ast.expr]:
    """What the call is given by keyword."""
    return [keyword.value for keyword in call.keywords]


def assigned_before(source: PythonSource, before: ast.expr, name: str) -> Iterator[ast.expr]:
    """What the name is given in the same function, up to that line."""
    function = source.names.function(before)
    for node in source.remember("assignments", lambda: _assignments(source)).get(name, ()):
        if node.lineno <= before.lineno and source.names.function(node) is function:
            yield node.value


def _assignments(source: PythonSource) -> dict[str, list[ast.Assign]]:
    """By the name that is given a value, in the order in which they stand."""
    found: dict[str, list[ast.Assign]] = {}
    for node in source.names.of_type(ast.Assign):
        for name in {target.id for target in node.targets if isinstance(target, ast.Name)}:
            found.setdefault(name, []).append(node)
    return found
