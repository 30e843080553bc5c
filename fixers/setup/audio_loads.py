"""The uses of `torchaudio.load` in a file, and its replacement by a function of the project."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.sources.names import Names
from remote.protocol.dataclass import dataclass

MODULE, FUNCTION = "torchaudio", "load"
LOAD = f"{MODULE}.{FUNCTION}"


@dataclass(frozen=True)
class LoadUse:
    """The first line that uses `torchaudio.load`, or 0, and whether a function of the project replaces it.

    `is_kept`: the file imports the function itself, or uses it without a call, as in `original = torchaudio.load`, so
    that a replacement may still call it.
    """

    line: int = 0
    is_kept: bool = False
    is_replaced: bool = False


def find_loads(names: Names) -> LoadUse:
    """Return how a file uses `torchaudio.load`, under any name of the module; its other names are not followed."""
    imported = [node.lineno for node in names.of_type(ast.ImportFrom) if _imports_load(node)]
    uses = [node for node in names.of_type(ast.Attribute) if node.attr == FUNCTION and names.meaning(node) == LOAD]
    read = [node for node in uses if isinstance(node.ctx, ast.Load)]
    called = {id(call.func) for call in names.of_type(ast.Call)}
    is_kept = bool(imported) or any(id(node) not in called for node in read)
    is_assigned = any(isinstance(node.ctx, ast.Store) for node in uses) or any(_set_by_name(names))
    return LoadUse(next(iter((*imported, *(node.lineno for node in read))), 0), is_kept, is_assigned and not is_kept)


def _imports_load(node: ast.ImportFrom) -> bool:
    return node.module == MODULE and not node.level and FUNCTION in [alias.name for alias in node.names]


def _set_by_name(names: Names) -> Iterator[ast.Call]:
    """Yield the calls like `setattr(torchaudio, "load", read)`."""
    for call in names.of_type(ast.Call):
        match call:
            case ast.Call(func=ast.Name(id="setattr"), args=[module, ast.Constant(value="load"), _]):
                if names.meaning(module) == MODULE:
                    yield call
