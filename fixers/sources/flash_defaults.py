"""Find arguments whose default is FlashAttention, and the calls that rely on such a default."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from contextlib import suppress

from fixers.sources.expressions import tail_of
from fixers.sources.file_roles import INFERS, OF_EVALUATION
from fixers.sources.lines import LinePattern, may_name
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import TREES, PythonSource
from fixers.sources.unparsable import Unparsable

DEFAULT = LinePattern(re.compile(rb"attn(?:(?!attn)\w)*+[ ]*(?::[^=\n]++)?=[ ]*[\"']flash_att"), (b"flash_att",))
FLASH = "flash_att"


def flash_defaults_in(path: str, data: bytes) -> tuple[str, ...]:
    """Return `NAME ARGUMENT POSITION` for each function, or class, with FlashAttention as an argument's default."""
    if not DEFAULT.is_in(data):
        return ()
    with suppress(Unparsable):
        return tuple(dict.fromkeys(_defaults(TREES.read(path, data))))
    return ()


def relied_on(defaults: Collection[str], path: str, data: bytes) -> set[str]:
    """Return the defaults on which a call in this file relies. Scripts that only use a trained model do not count."""
    rows = [(row, *row.split()) for row in defaults]
    if INFERS.search(path) or OF_EVALUATION.search(path):
        return set()
    if not may_name(data, frozenset(name.encode() for _, name, _, _ in rows)):
        return set()
    with suppress(Unparsable):
        calls = TREES.read(path, data).names.of_type(ast.Call)
        return {row for row, name, *at in rows for call in calls if tail_of(call) == name and _omits(call, *at)}
    return set()


def _omits(call: ast.Call, argument: str, position: str) -> bool:
    return _leaves_out(call, argument, int(position))


def default_row(source: PythonSource, node: ast.expr) -> str:
    """Return `NAME ARGUMENT POSITION` for the default of an argument that the function reads, else an empty string."""
    arguments = source.names.parent(node)
    function = source.names.parent(arguments) if isinstance(arguments, ast.arguments) else None
    if not isinstance(arguments, ast.arguments) or not isinstance(function, FUNCTIONS):
        return ""
    called, at = _called(source, function), _position_of(arguments, node)
    return " ".join((called, *map(str, at))) if called and _reads(function, at[0]) else ""


def _defaults(source: PythonSource) -> Iterator[str]:
    for constant in source.names.of_type(ast.Constant):
        if isinstance(constant.value, str) and constant.value.startswith(FLASH):
            row = default_row(source, constant)
            if row:
                yield row


def is_unused_default(source: PythonSource, node: ast.expr) -> bool:
    """Return True for the default of an argument that the function never reads, or that every call in this file sets.

    Calls inside the function itself are ignored. The fixer does not change this default, because callers in other files
    may rely on other effects of the FlashAttention branch.
    """
    arguments = source.names.parent(node)
    function = source.names.parent(arguments) if isinstance(arguments, ast.arguments) else None
    if not isinstance(arguments, ast.arguments) or not isinstance(function, FUNCTIONS):
        return False
    at = _position_of(arguments, node)
    if not _reads(function, at[0]):
        return True
    calls = _calls_of(source, function)
    return not any(_leaves_out(call, *at) for call in calls if function not in source.names.ancestors(call))


def is_default_of(source: PythonSource, node: ast.expr, names: Collection[str]) -> bool:
    """Return True for the default of a field of a class, or of an option of argparse, with one of these names."""
    statement, above = source.names.statement(node), source.names.parent(node)
    call = source.names.parent(above) if isinstance(above, ast.keyword) else None
    if isinstance(statement, ast.AnnAssign):
        return source.segment(statement.target) in names
    if not isinstance(call, ast.Call) or tail_of(call) != "add_argument":
        return False
    options = (each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str))
    return any(each.lstrip("-").replace("-", "_") in names for each in options)


def _reads(function: ast.AST, argument: str) -> bool:
    """Return True if the function uses the argument, by its name or by `locals()`."""
    names = (each.id for each in ast.walk(function) if isinstance(each, ast.Name))
    return any(name in (argument, "locals") for name in names)


def _position_of(arguments: ast.arguments, default: ast.expr) -> tuple[str, int]:
    """Return the name and the position of the argument with this default.

    A keyword-only argument has the position 1000.
    """
    positional = [*arguments.posonlyargs, *arguments.args]
    if default in arguments.defaults:
        at = len(positional) - len(arguments.defaults) + arguments.defaults.index(default)
        bound = positional[0].arg in ("self", "cls")
        return positional[at].arg, at - bound
    return arguments.kwonlyargs[arguments.kw_defaults.index(default)].arg, 1000


def _calls_of(source: PythonSource, function: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of the function. For an `__init__`, yield the calls of the class."""
    called = _called(source, function)
    yield from (call for call in source.names.of_type(ast.Call) if called and tail_of(call) == called)


def _called(source: PythonSource, function: ast.AST) -> str:
    """Return the name by which the function is called: for `__init__`, the name of the class."""
    called, above = getattr(function, "name", ""), source.names.parent(function)
    return above.name if called == "__init__" and isinstance(above, ast.ClassDef) else called


def _leaves_out(call: ast.Call, name: str, at: int) -> bool:
    """Return True if the call does not pass the argument.

    An unpacked argument (`*args`, `**kwargs`) counts as passing it.
    """
    unpacked = any(each.arg is None for each in call.keywords) or any(
        isinstance(each, ast.Starred) for each in call.args
    )
    return not unpacked and len(call.args) <= at and all(each.arg != name for each in call.keywords)
