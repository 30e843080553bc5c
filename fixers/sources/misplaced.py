"""Syntax errors that Python reports after parsing: statements in the wrong place. Pure.

Python itself finds them when it generates code or builds the tables of names. Both can take gigabytes for a small file:
the code of `finally:` is generated twice on each level, and each function has a copy of the names around it.
"""

from __future__ import annotations

import ast
from dataclasses import field

from fixers.sources.child_nodes import FIELDS, child_nodes
from remote.protocol.dataclass import dataclass

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
IN_FUNCTIONS = {ast.Return: "return", ast.Yield: "yield", ast.YieldFrom: "yield"}
IN_ASYNC_FUNCTIONS = {ast.Await: "await", ast.AsyncFor: "async for", ast.AsyncWith: "async with"}
IN_LOOPS: dict[type[ast.AST], str] = {
    ast.Break: "'break' outside loop",
    ast.Continue: "'continue' not properly in loop",
}
UNEVALUATED = ("annotation", "returns", "type_params")
"""Fields that not all versions of Python evaluate."""
EVALUATED = {kind: tuple(name for name in names if name not in UNEVALUATED) for kind, names in FIELDS.items()}
BODY = ("body",)


@dataclass(frozen=True)
class _Around:
    """What surrounds a node: its function and its loop, and the names that this scope has used so far."""

    function: bool = False
    is_async: bool = False
    loop: bool = False
    used: set[str] = field(default_factory=set)


def find_misplaced(tree: ast.Module) -> SyntaxError | None:
    """Return the first error about a statement in the wrong place or a name declared too late, or None."""
    nodes: list[tuple[ast.AST, _Around]] = [(tree, _Around())]
    while nodes:
        node, around = nodes.pop()
        message = _misplaced(node, around) or _declared_late(node, around)
        if message:
            return SyntaxError(message, ("", getattr(node, "lineno", 0), None, None))
        nodes += reversed(_children(node, around))
    return None


def _misplaced(node: ast.AST, around: _Around) -> str:
    kind = type(node)
    if kind in IN_FUNCTIONS and not around.function:
        return f"'{IN_FUNCTIONS[kind]}' outside function"
    if kind in IN_ASYNC_FUNCTIONS and not around.is_async:
        return f"'{IN_ASYNC_FUNCTIONS[kind]}' outside async function"
    return IN_LOOPS.get(kind, "") if not around.loop else ""


def _declared_late(node: ast.AST, around: _Around) -> str:
    if isinstance(node, ast.Name):
        around.used.add(node.id)
    if not isinstance(node, ast.Global | ast.Nonlocal):
        return ""
    late = next((name for name in node.names if name in around.used), "")
    return f"name '{late}' is used before its declaration as {type(node).__name__.lower()}" if late else ""


def _children(node: ast.AST, around: _Around) -> list[tuple[ast.AST, _Around]]:
    fields = EVALUATED[type(node)]
    inside = _inside(node, around)
    if inside is around:
        return [(child, around) for child in child_nodes(node, fields)]
    own = fields if isinstance(node, COMPREHENSIONS) else BODY
    return [(child, inside if name in own else around) for name in fields for child in child_nodes(node, (name,))]


def _inside(node: ast.AST, around: _Around) -> _Around:
    """Return what surrounds the body of the node."""
    if isinstance(node, FUNCTIONS):
        return _Around(function=True, is_async=isinstance(node, ast.AsyncFunctionDef))
    if isinstance(node, ast.ClassDef):
        return _Around()
    if isinstance(node, COMPREHENSIONS):
        return _Around(function=around.function, is_async=True)
    if isinstance(node, LOOPS):
        return _Around(around.function, around.is_async, loop=True, used=around.used)
    return around
