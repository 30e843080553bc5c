"""Add a statement before or after another statement: on a new line, or on the same line if it contains `;`."""

from __future__ import annotations

import ast

from fixers.sources.python import PythonSource
from fixers.sources.splice import Edit

SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign)


def add_after(source: PythonSource, statement: ast.stmt, line: str, why: str) -> Edit | None:
    """Return the edit that adds `line` after a statement, or None if a compound statement is on the same line."""
    own = source.insert_after(statement, (line,), why)
    shared = own is None and isinstance(statement, SIMPLE)
    return source.insert(source.span(statement)[1], f"; {line}", why) if shared else own


def add_before(source: PythonSource, statement: ast.stmt, line: str, why: str) -> Edit | None:
    """Return the edit that adds `line` before a statement, or None if a compound statement is on the same line."""
    own = source.insert_before(statement, (line,), why)
    shared = own is None and isinstance(statement, SIMPLE)
    return source.insert(source.span(statement)[0], f"{line}; ", why) if shared else own
