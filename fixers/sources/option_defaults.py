"""Find the defaults of options: of argparse, and of the fields of classes that a parser reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.sources.expressions import tail_of

UNUSED_DEFAULT = "defaults of arguments that no caller relies on"


def defaults_in(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the name and the default of the option that a call adds, or those of each field of a class."""
    match node:
        case ast.Call(args=options, keywords=given) if tail_of(node) == "add_argument":
            names = [each.value for each in options if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            for each in given:
                if each.arg == "default" and names:
                    yield max(names, key=len).lstrip("-").replace("-", "_"), each.value
        case ast.ClassDef(body=body):
            for statement in body:
                yield from _of_field(statement)


def _of_field(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(keywords=given)):
            yield from ((name, each.value) for each in given if each.arg == "default")
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
