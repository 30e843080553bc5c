"""Find the name under which a file imports a module, or the edit that adds the import."""

from __future__ import annotations

import ast

from fixers.sources.python import PythonSource
from fixers.sources.splice import Edit
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Imported:
    """The name under which the file can use a module, and the edit that adds the import if it is missing."""

    name: str
    edits: tuple[Edit, ...] = ()


def name_of(source: PythonSource, module: str) -> str | None:
    """Return the name under which the file imports a module at the top level, or None if there is no such import."""
    for name, meanings in source.names.module.bindings.items():
        if set(meanings) == {module}:
            return name
    return None


def imported(source: PythonSource, module: str, why: str) -> Imported | None:
    """Return the module's name in the file, and the edit that adds the import if it is missing.

    Return None if the name is bound to another object, or if an import cannot be inserted.
    """
    name = name_of(source, module)
    if name is not None:
        return Imported(name)
    if any(module in scope.bindings for scope in source.names.scopes.values()):
        return None
    first = next((each for each in source.tree.body if not _is_prologue(each)), None)
    edit = source.insert_before(first, (f"import {module}",), why) if first is not None else None
    return Imported(module, (edit,)) if edit is not None else None


def _is_prologue(statement: ast.stmt) -> bool:
    """Return True for a docstring or a `__future__` import, which must stay first."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
