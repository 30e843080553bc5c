"""Recognise Python files that only assign settings, and the texts that give such a file to a script.

A program reads such a file by its path, as mmengine's `Config.fromfile` does, and no import names it.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from contextlib import suppress
from posixpath import basename, dirname, join, normpath

from fixers.plans.named_paths import contains_path
from fixers.sources.launched import CONTINUED, is_document
from fixers.sources.syntax import parse_python

ASSIGNS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete)
IMPORTS = (ast.Import, ast.ImportFrom)
BASES = "_base_"


def only_assigns(data: bytes) -> bool:
    """Return True if the file assigns values, and defines and calls nothing at module level."""
    with suppress(SyntaxError, ValueError):
        body = parse_python(data).body
        plain = (isinstance(each, (*ASSIGNS, *IMPORTS)) or _is_text(each) for each in body)
        return any(isinstance(each, ASSIGNS) for each in body) and all(plain)
    return False


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def is_base_of(path: str, where: str, text: bytes) -> bool:
    """Return True if the settings in the file `where` inherit those in the file `path`: `_base_ = ["../a.py"]`."""
    if BASES.encode() not in text or basename(path).encode() not in text:
        return False
    with suppress(SyntaxError, ValueError):
        lists = [each.value for each in parse_python(text).body if isinstance(each, ast.Assign) and _names_bases(each)]
        named = [each.value for one in lists for each in ast.walk(one) if isinstance(each, ast.Constant)]
        return any(normpath(join(dirname(where), each)) == path for each in named if isinstance(each, str))
    return False


def _names_bases(statement: ast.Assign) -> bool:
    return any(isinstance(each, ast.Name) and each.id == BASES for each in statement.targets)


def commands_with(path: str, where: str, text: bytes, folders: Container[str]) -> Iterator[bytes]:
    """Yield the parts of the text that name the file: lines of a document, or else the whole text.

    `folders`: the folders of the project that have files.
    """
    name = basename(path).encode()
    joined = CONTINUED.sub(b" ", text)
    parts = joined.split(b"\n") if is_document(where) else [joined]
    for part in parts:
        if name in part and contains_path(where, part, path, name, folders):
            yield part
