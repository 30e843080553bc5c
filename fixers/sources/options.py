"""Read the dictionaries that a file passes to calls as `**options`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import cast

from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import tail_of
from fixers.sources.gates import is_gated
from fixers.sources.python import PythonSource

DTYPES = ("dtype", "torch_dtype")


def entries_of(
    source: PythonSource, options: ast.expr, seen: set[str] | None = None
) -> Iterator[tuple[ast.expr | ast.keyword, ast.expr]]:
    """Yield every key (or keyword) and value that this file puts into the dictionary.

    `seen`: names of the dictionaries that were read. Each is read once, also for `options = {"a": 1, **options}`.
    """
    seen = set() if seen is None else seen
    if isinstance(options, ast.Dict):
        for key, value in zip(options.keys, options.values, strict=True):
            if key is not None:
                yield key, value
            else:
                yield from entries_of(source, value, seen)
    elif isinstance(options, ast.Call) and tail_of(options) == "dict":
        yield from ((keyword, keyword.value) for keyword in options.keywords if keyword.arg is not None)
    elif isinstance(options, (ast.Name, ast.Attribute)):
        name = source.segment(options)
        if name not in seen:
            seen.add(name)
            yield from _assigned(source, name, seen)


def _assigned(source: PythonSource, name: str, seen: set[str]) -> Iterator[tuple[ast.expr | ast.keyword, ast.expr]]:
    """Yield the keys and values from assignments to the name, to its items, and from `name.update(...)`."""
    for assignment in source.names.of_type(ast.Assign):
        for target in assignment.targets:
            if isinstance(target, ast.Subscript) and source.segment(target.value) == name:
                yield target.slice, assignment.value
            elif isinstance(assignment.value, (ast.Dict, ast.Call)) and _is_named(source, target, name):
                yield from entries_of(source, assignment.value, seen)
    for call in source.names.of_type(ast.Call):
        match call.func:
            case ast.Attribute(attr="update", value=owner) if source.segment(owner) == name:
                yield from ((keyword, keyword.value) for keyword in call.keywords if keyword.arg is not None)
                for argument in call.args:
                    if isinstance(argument, (ast.Dict, ast.Call)):
                        yield from entries_of(source, argument, seen)


def _is_named(source: PythonSource, target: ast.expr, name: str) -> bool:
    return isinstance(target, (ast.Name, ast.Attribute)) and source.segment(target) == name


def name_of_entry(key: ast.expr | ast.keyword) -> object:
    """Return the key as a string, or `...` if it is not a constant."""
    return key.arg if isinstance(key, ast.keyword) else constant_of(key)


def auto_dtypes(source: PythonSource, options: ast.expr) -> Iterator[ast.Constant]:
    """Yield every `"auto"` that the dictionary contains as a model's dtype."""
    for key, value in entries_of(source, options):
        is_auto = isinstance(value, ast.Constant) and value.value == "auto"
        if is_auto and name_of_entry(key) in DTYPES and not is_gated(source, value):
            yield cast(ast.Constant, value)
