"""Replace removed Trainer arguments by the environment variables that transformers reads instead."""

from __future__ import annotations

import ast

from fixers.code.draft import Draft
from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import is_path, tail_of
from fixers.sources.imports import imported
from fixers.sources.python import PythonSource
from fixers.sources.splice import Edit
from fixers.sources.training_setup import SIMPLE

BINDS = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
JOINS = "os.path.join"
NEVER_NONE = frozenset({"Path", "join", "format", "expanduser", "abspath"})
"""Functions and methods whose result is a path, or its text."""


def is_replaced(draft: Draft, removal: Edit | None, value: ast.expr, variable: str) -> bool:
    """Add the removal of an argument, and lines before its statement that set the environment variable instead.

    A variable that is already set, as in halfstep's runs, keeps its value. An argument of None or of an empty string
    needs no variable. Return False, and add nothing, if this is impossible.
    """
    edits = _setting(draft, value, variable) if removal is not None else None
    if removal is None or edits is None:
        return False
    draft.edits += [*edits, removal]
    return True


def is_item_replaced(draft: Draft, item: ast.Assign, variable: str) -> bool:
    """Replace the assignment to an item of a dict by one that sets the variable. Return False if this is impossible."""
    os = imported(draft.source, "os", _why(variable))
    lines = _lines(draft.source, item.value, variable, os.name) if os is not None and len(item.targets) == 1 else ()
    if os is None or len(lines) != 1:
        return False
    draft.edits += [*(each for each in os.edits if each not in draft.edits)]
    draft.replace(item, lines[0], _why(variable))
    return True


def _setting(draft: Draft, value: ast.expr, variable: str) -> list[Edit] | None:
    """Return the edits that set the variable before the statement of the value, or None if no such edit is possible."""
    source = draft.source
    if constant_of(value) in (None, ""):
        return []
    statement, os = source.names.statement(value), imported(source, "os", _why(variable))
    if os is None or not isinstance(statement, SIMPLE):
        return None
    if any(isinstance(each, BINDS) for each in source.names.ancestors(value)):
        return None
    lines = _lines(source, value, variable, os.name)
    edit = source.insert_before(statement, lines, _why(variable)) if lines else None
    return [*(each for each in os.edits if each not in draft.edits), edit] if edit is not None else None


def _why(variable: str) -> str:
    return f"transformers reads {variable} instead"


def _lines(source: PythonSource, value: ast.expr, variable: str, os: str) -> tuple[str, ...]:
    """Return the lines that set the variable to the value, or () if it is unknown whether the value is None."""
    text, call = source.segment(value), f'{os}.environ.setdefault("{variable}", '
    if "\n" in text or "\r" in text:
        return ()
    if isinstance(value, ast.JoinedStr) or isinstance(constant_of(value), str):
        return (f"{call}{text})",)
    if isinstance(value, ast.Call) and (tail_of(value) == "str" or source.names.meaning(value.func) == JOINS):
        return (f"{call}{text})",)
    if isinstance(value, ast.BinOp) or (isinstance(value, ast.Call) and tail_of(value) in NEVER_NONE):
        return (f"{call}str({text}))",)
    return (f"if {text}:", f"    {call}str({text}))") if is_path(value) else ()
