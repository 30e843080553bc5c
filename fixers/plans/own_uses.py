"""Find how a project uses a name: the values of a dtype variable, and whether an FSDP policy is selected."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress

from fixers.code.bf16_forms.branches import excludes_other_device, selects_other_device
from fixers.frame.site import Tree
from fixers.sources.expressions import written
from fixers.sources.gates import is_gated
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import TREES, PythonSource
from fixers.sources.unparsable import Unparsable

FLOAT16 = ("torch.float16", "torch.half")


def float16_only(tree: Tree, names: Sequence[str], paths: Sequence[str]) -> tuple[str, ...]:
    """Return the names whose value on a card is float16 in every assignment of the project."""
    return tuple(name for name in names if _is_float16_only(tree, name, paths))


def unselected(tree: Tree, names: Sequence[str], paths: Sequence[str]) -> tuple[str, ...]:
    """Return the names that no file uses, or that are used only in branches that test the card for bfloat16."""
    return tuple(name for name in names if not any(_selects(*each, name) for each in _files_with(tree, name, paths)))


def _files_with(tree: Tree, name: str, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        with suppress(OSError):
            data = tree.read(path)
            if name.encode() in data:
                yield path, data


def _parsed(path: str, data: bytes) -> PythonSource | None:
    """Return the parsed file, or None if it is not Python."""
    with suppress(Unparsable):
        return TREES.read(path, data) if path.endswith(".py") else None
    return None


def _is_float16_only(tree: Tree, name: str, paths: Sequence[str]) -> bool:
    found = False
    for path, data in _files_with(tree, name, paths):
        source = _parsed(path, data)
        if source is None or any(each.value == name for each in source.names.of_type(ast.Constant)):
            return False
        for value in _values_given(source, name):
            if written(source, value).rpartition(".")[2] == name:
                continue
            if not _is_float16(source, value):
                return False
            found = True
    return found


def _values_given(source: PythonSource, name: str) -> Iterator[ast.expr]:
    """Yield the values that the name gets in assignments, fields, keywords and defaults of arguments."""
    for node in source.names.nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                if any(written(source, each).rpartition(".")[2] == name for each in targets):
                    yield value
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                if written(source, target).rpartition(".")[2] == name:
                    yield value
            case ast.keyword(arg=argument, value=value) if argument == name:
                yield value
            case _ if isinstance(node, FUNCTIONS):
                yield from _defaults(node.args, name)


def _defaults(arguments: ast.arguments, name: str) -> Iterator[ast.expr]:
    positional = [*arguments.posonlyargs, *arguments.args]
    given = positional[len(positional) - len(arguments.defaults) :]
    pairs = [
        *zip(given, arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    yield from (value for argument, value in pairs if argument.arg == name and value is not None)


def _is_float16(source: PythonSource, value: ast.expr) -> bool:
    """Return True for float16, and for a conditional expression that selects float16 unless the device is a CPU."""
    if isinstance(value, ast.IfExp) and excludes_other_device(value.test):
        return _is_float16(source, value.body)
    if isinstance(value, ast.IfExp) and selects_other_device(value.test):
        return _is_float16(source, value.orelse)
    return source.names.meaning(value) in FLOAT16


def _selects(path: str, data: bytes, name: str) -> bool:
    """Return True if the file may select the name on a card without bfloat16."""
    source = _parsed(path, data)
    if source is None:
        return True
    uses: list[ast.expr] = [
        *(each for each in source.names.of_type(ast.Name) if each.id == name and isinstance(each.ctx, ast.Load)),
        *(each for each in source.names.of_type(ast.Attribute) if each.attr == name),
        *(each for each in source.names.of_type(ast.Constant) if each.value == name),
    ]
    renamed = any(alias.name == name and alias.asname for alias in source.names.of_type(ast.alias))
    return renamed or any(not is_gated(source, each) for each in uses)
