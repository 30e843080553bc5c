"""Find code that runs kernels of FlashAttention whatever attention is selected: imports and patches at module level."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress

from fixers.sources.expressions import tail_of
from fixers.sources.lines import LinePattern
from fixers.sources.python import TREES
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable

PACKAGES = ("flash_attn", "flash_attn_interface", "flash_attn_3", "ring_flash_attn")
IMPORTS = LinePattern(
    re.compile(rb"^[ \t]*(?:from|import)[ \t]+(?:ring_)?flash_attn(?:_interface|_3)?\b", re.MULTILINE), (b"flash_attn",)
)
PATCHES = LinePattern(
    re.compile(
        rb"^(?:\w+\.)*(?:(?:replace|patch|apply|enable)\w*_flash_att\w*|\w*_flash_att\w*_patch)\(", re.MULTILINE
    ),
    (b"_flash_att",),
)
"""Matches a call at module level that puts FlashAttention into the classes of a library."""


def lines_that_need_flash(path: str, data: bytes) -> tuple[tuple[str, int], ...]:
    """Return (path, line) of each line that fails, on a card without FlashAttention, when the module is imported.

    Imports in a function, under a condition or in a `try` block with another branch are left out.
    """
    offset = PATCHES.find(data)
    lines = [line_of(data, offset)] if offset is not None else []
    if IMPORTS.find(data) is not None:
        with suppress(Unparsable):
            lines += _imports(TREES.read(path, data).tree.body)
    return tuple((path, line) for line in sorted(lines))


def _imports(body: list[ast.stmt]) -> Iterator[int]:
    """Yield the lines that import FlashAttention whenever the statements run."""
    for statement in body:
        if isinstance(statement, ast.Try):
            if all(_fails(handler.body) for handler in statement.handlers):
                yield from _imports(statement.body)
        elif _is_import(statement):
            yield statement.lineno


def _fails(handler: list[ast.stmt]) -> bool:
    """Return True if the exception handler raises an error, exits, or imports FlashAttention from another module."""
    return any(isinstance(each, ast.Raise) or _exits(each) for each in handler) or any(_imports(handler))


def _exits(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call() as call):
            return tail_of(call) in ("exit", "quit")
    return False


def _is_import(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import(names=names):
            return any(each.name.partition(".")[0] in PACKAGES for each in names)
        case ast.ImportFrom(module=str(module), level=0):
            return module.partition(".")[0] in PACKAGES
    return False
