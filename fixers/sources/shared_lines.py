"""Add statements before or after another statement: on new lines, or on the same line if it contains `;`."""

from __future__ import annotations

import ast

from fixers.sources.python import PythonSource
from fixers.sources.splice import Edit

SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign)


def add_after(source: PythonSource, statement: ast.stmt, lines: tuple[str, ...], why: str) -> Edit | None:
    """Return the edit that adds `lines` after a statement, or None if a compound statement is on the same line."""
    own = source.insert_after(statement, lines, why)
    shared = own is None and isinstance(statement, SIMPLE)
    return source.insert(source.span(statement)[1], "".join(f"; {line}" for line in lines), why) if shared else own


def add_before(source: PythonSource, statement: ast.stmt, line: str, why: str) -> Edit | None:
    """Return the edit that adds `line` before a statement, or None if a compound statement is on the same line."""
    own = source.insert_before(statement, (line,), why)
    shared = own is None and isinstance(statement, SIMPLE)
    return source.insert(source.span(statement)[0], f"{line}; ", why) if shared else own
