"""Find the innermost syntax node at a position."""

from __future__ import annotations

import ast


def innermost(tree: ast.Module, line: int, column: int) -> ast.AST:
    """Return the smallest node that contains the position. Only nodes that contain the position are visited."""
    found: ast.AST = tree
    candidates: list[ast.AST] = list(ast.iter_child_nodes(tree))
    while candidates:
        node = candidates.pop()
        first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if first is None or last is None:
            candidates += ast.iter_child_nodes(node)
        elif _decorated(node, line) or _covers(node, first, last, line, column):
            found, candidates = node, list(ast.iter_child_nodes(node))
    return found


def _decorated(node: ast.AST, line: int) -> bool:
    """Return True if the line belongs to a decorator.

    The line number of a decorated node does not include its decorators.
    """
    return any(each.lineno <= line <= (each.end_lineno or 0) for each in getattr(node, "decorator_list", ()))


def _covers(node: ast.AST, first: int, last: int, line: int, column: int) -> bool:
    if not first <= line <= last:
        return False
    if line == first and column < getattr(node, "col_offset", 0):
        return False
    return line < last or column < getattr(node, "end_col_offset", 0)
