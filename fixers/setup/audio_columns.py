"""The audio columns that a file lets datasets decode, and those that it keeps as bytes. Pure."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from fixers.sources.names import EVERY, Names
from remote.protocol.dataclass import dataclass, field

MODULES = ("datasets", "datasets.features", "datasets.features.audio")
"""The modules from which `Audio` of datasets can be imported."""
MEANINGS = frozenset(f"{module}.Audio" for module in MODULES)
STARS = frozenset(f"{module}.{EVERY}" for module in MODULES)
ANY, EACH = "", "*"
"""A column that the code does not name by a string, so that it may be any column; all columns together."""


@dataclass(frozen=True)
class AudioColumns:
    """`decoded` maps each column to the line of a call of `Audio(...)` that decodes it; `kept` are not decoded."""

    decoded: Mapping[str, int] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()


def columns_in(names: Names) -> AudioColumns:
    """Return the columns of the calls of `datasets.Audio`.

    A column is kept if the same function passes `decode=False` for it later, or another function does anywhere.
    """
    keys = {value: key for node in names.of_type(ast.Dict) for key, value in zip(node.keys, node.values, strict=True)}
    calls = [(_column_of(node, names, keys), names.function(node), node) for node in _calls(names)]
    last = _last_kept(calls)
    decoded: dict[str, int] = {}
    for number, (column, function, node) in enumerate(calls):
        places = [last.get(column, {}), last.get(EACH if column == ANY else ANY, {})]
        kept = any(len(each) > (function in each) or each.get(function, -1) > number for each in places)
        if not kept and not _keeps_bytes(node):
            decoded.setdefault(column, node.lineno)
    return AudioColumns(decoded, frozenset(last) - {EACH})


def _last_kept(calls: Sequence[tuple[str, ast.AST, ast.Call]]) -> dict[str, dict[ast.AST, int]]:
    """Return, for each column and for EACH, the number of the last call of each function that keeps its bytes."""
    last: defaultdict[str, dict[ast.AST, int]] = defaultdict(dict)
    for number, (column, function, node) in enumerate(calls):
        if _keeps_bytes(node):
            last[column][function] = last[EACH][function] = number
    return last


def is_among(column: str, columns: Collection[str]) -> bool:
    """Return True if the column may be one of the columns."""
    return column in columns or ANY in columns or (column == ANY and bool(columns))


def _calls(names: Names) -> Iterator[ast.Call]:
    """Yield the calls of `Audio` of datasets, under any name, in file order. Classes of other modules do not count."""
    found = {name for name, value in _assigned(names) if names.meaning(value) in MEANINGS}
    stars = names.module.bindings.get(EVERY, [])
    if stars and stars[-1] in STARS and not any("Audio" in scope.bindings for scope in names.scopes.values()):
        found.add("Audio")
    for node in names.of_type(ast.Call):
        if names.meaning(node.func) in MEANINGS or (isinstance(node.func, ast.Name) and node.func.id in found):
            yield node


def _assigned(names: Names) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names of the module that exactly one statement binds, and the expressions assigned to them."""
    for node in names.of_type(ast.Assign):
        match node.targets:
            case [ast.Name(id=name)] if names.module.bindings.get(name) == [None]:
                yield name, node.value


def _keeps_bytes(call: ast.Call) -> bool:
    values = [word.value for word in call.keywords if word.arg == "decode"]
    return any(isinstance(value, ast.Constant) and value.value is False for value in values)


def _column_of(call: ast.Call, names: Names, keys: Mapping[ast.expr, ast.expr | None]) -> str:
    """Return the column to which the feature is given: by `cast_column`, or in a dict or a call of keywords."""
    parent = names.parent(call)
    word = parent if isinstance(parent, ast.keyword) else None
    match names.parent(word) if word is not None else parent:
        case ast.Call(func=ast.Attribute(attr="cast_column")) as cast:
            named = [other.value for other in cast.keywords if other.arg == "column"]
            return _text(next(iter([*cast.args, *named]), None))
        case ast.Call() if word is not None:
            return word.arg or ANY
        case ast.Dict():
            return _text(keys.get(call))
        case ast.Assign(targets=[ast.Subscript(slice=column)]):
            return _text(column)
    return ANY


def _text(column: ast.expr | None) -> str:
    return column.value if isinstance(column, ast.Constant) and isinstance(column.value, str) else ANY
