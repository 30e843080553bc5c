"""Comparisons of one expression with constants, such as `args.precision in ("bf16", "fp32")`."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from fixers.sources.chosen_words import constant_of
from fixers.sources.python import PythonSource
from fixers.sources.readers.displays import DTYPE_ATTRIBUTES, display_of
from fixers.sources.readers.reader import BF16_WORD, DTYPE, NUMBER
from fixers.sources.readers.subjects import without_cast
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Test:
    """A comparison of `subject` with the constants `words`. `equal` is False for `!=` and `not in`."""

    subject: ast.expr
    words: tuple[str, ...]
    equal: bool


def test_of(source: PythonSource, node: ast.expr) -> Test | None:
    """Parse `x == "bf16"`, `x in ("bf16", "fp32")`, or comparisons of one `x` joined by `and` or `or`.

    Return None for other expressions.
    """
    node = without_bool(node)
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            found = test_of(source, inner)
            return Test(found.subject, found.words, not found.equal) if found else None
        case ast.BoolOp(op=joined, values=values):
            parts = [test_of(source, each) for each in values]
            return _joined(source, [each for each in parts if each], isinstance(joined, ast.Or), len(parts))
        case ast.Compare(left=left, ops=[operation], comparators=[right]):
            return _parse_comparison(source, left, operation, right)
    return None


def without_bool(node: ast.expr) -> ast.expr:
    """Return the test in `True if test else False` and in `bool(test)`, and any other expression unchanged."""
    match node:
        case ast.IfExp(test=test, body=ast.Constant(value=True), orelse=ast.Constant(value=False)):
            return test
        case ast.Call(func=ast.Name(id="bool"), args=[test], keywords=[]):
            return test
    return node


def _joined(source: PythonSource, parts: Sequence[Test], either: bool, count: int) -> Test | None:
    """Join `x == "a" or x == "b"`, or `x != "a" and x != "b"`, or return None. Other parts of an `and` are ignored."""
    same = [each for each in parts if each.equal == either]
    written = {source.segment(without_cast(each.subject)) for each in same}
    if len(written) != 1 or (either and len(same) != count):
        return parts[0] if len(parts) == 1 and not either else None
    return Test(same[0].subject, tuple(word for each in same for word in each.words), either)


def _parse_comparison(source: PythonSource, left: ast.expr, operation: ast.cmpop, right: ast.expr) -> Test | None:
    if isinstance(operation, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
        if word_of(source, left) is not None:
            left, right = right, left
        words = [word_of(source, right)]
    elif isinstance(operation, (ast.In, ast.NotIn)):
        display = display_of(source, right)
        words = [word_of(source, each) for each in display.elts] if display is not None else _keys(right)
    else:
        return None
    known = tuple(word for word in words if word is not None)
    return Test(left, known, isinstance(operation, (ast.Eq, ast.Is, ast.In))) if known else None


def _keys(node: ast.expr) -> list[str | None]:
    return [str(constant_of(key)) for key in node.keys] if isinstance(node, ast.Dict) else []


def word_of(source: PythonSource, node: ast.expr) -> str | None:
    """Return a string, number or torch dtype as a string, or None for any other expression."""
    value = constant_of(node)
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{NUMBER}{value}"
    if isinstance(node, ast.Attribute):
        if node.attr in DTYPE_ATTRIBUTES and (source.names.meaning(node) or "").startswith("torch."):
            return DTYPE + node.attr
        if BF16_WORD.fullmatch(node.attr):
            return node.attr
        if node.attr.isupper():
            return node.attr
    return None
