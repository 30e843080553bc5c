"""Find all code that fails without FlashAttention: asserts, errors, tables, packing, and places of `flash_only`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.sources.attention_choice import line_of_flash_table
from fixers.sources.flash_only import FlashOnly, find_flash_only, may_contain_flash_only
from fixers.sources.lines import LinePattern
from fixers.sources.python import TREES, PythonSource
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable

REQUIRES = LinePattern(
    re.compile(rb"^[ \t]*(?:assert\b[^\n]*attn_impl|(?:el)?if\b[^\n]*attn_impl[^\n]*(?:!=|not in))", re.MULTILINE),
    (b"flash_attention_2",),
)
PACKS = LinePattern(
    re.compile(
        rb"^[^#\n]*position_ids[\"'\]]*[ \t]*"
        rb"(?:(?:\+=|\.extend\()[^#\n]*\ba?range\((?:[ \t]*0[ \t]*,)?[^,\n]*(?:,[ \t]*\w+=|\#|$)"
        rb"|=[ \t]*\w+\.(?:cat|concat|concatenate|hstack)\(\[?(?:\w*position_ids\]?\)|\w+\.arange\())"
        rb"|^[^#\n]*(?:=|\breturn)[ \t]*(?:\w+\.)*DataCollatorWithFlattening",
        re.MULTILINE,
    ),
    (b"position_ids", b"DataCollatorWithFlattening"),
)
"""Matches positions that restart at 0 for each sample of a row."""
REQUIRED = "the code requires FlashAttention here"
REQUIRED_IF = "the code requires FlashAttention here under a condition"
PACKED = "samples of a row are separated by position_ids that restart at 0, which other attention may ignore"
NO_ALTERNATIVE = "a table of attention classes has no other implementation"


def find_broken(path: str, data: bytes) -> tuple[FlashOnly, ...]:
    """Return the places that fail without FlashAttention. The file is parsed only if a text search suggests one."""
    required = tuple(_requirements(path, data))
    if not may_contain_flash_only(data):
        return required
    try:
        return (*find_flash_only(TREES.read(path, data)), *required)
    except Unparsable:
        return required


def _requirements(path: str, data: bytes) -> Iterator[FlashOnly]:
    """Yield the first line that rejects other attention, packs samples, or has a table without other attention."""
    if REQUIRES.is_in(data):
        try:
            source = TREES.read(path, data)
        except Unparsable:
            return
        found = sorted(_rejections(source), key=lambda each: (_is_conditional(source, each), each.lineno))
        if found:
            yield FlashOnly(path, found[0].lineno, REQUIRED_IF if _is_conditional(source, found[0]) else REQUIRED)
    packing = PACKS.find(data)
    if packing is not None:
        yield FlashOnly(path, line_of(data, packing), PACKED)
    table = line_of_flash_table(data)
    if table:
        yield FlashOnly(path, table, NO_ALTERNATIVE)


def _rejections(source: PythonSource) -> Iterator[ast.Assert | ast.If]:
    for statement in source.names.of_type(ast.Assert):
        if any(_compares(source, each, (ast.Eq, ast.In)) for each in _parts(statement.test)):
            yield statement
    for branch in source.names.of_type(ast.If):
        if isinstance(branch.body[-1], ast.Raise):
            yield from (branch for each in _parts(branch.test) if _compares(source, each, (ast.NotEq, ast.NotIn)))


def _is_conditional(source: PythonSource, rejection: ast.Assert | ast.If) -> bool:
    """Return True if the statement, or its test, depends on another condition."""
    if isinstance(rejection, ast.If) and isinstance(rejection.test, ast.BoolOp):
        return isinstance(rejection.test.op, ast.And)
    above = (each for each in source.names.ancestors(rejection) if isinstance(each, ast.If))
    return any("__name__" not in source.segment(each.test) for each in above)


def _parts(test: ast.expr) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) else [test]


def _compares(source: PythonSource, test: ast.expr, operators: tuple[type[ast.cmpop], ...]) -> bool:
    """Return True for a comparison of an attention implementation with nothing but FlashAttention."""
    match test:
        case ast.Compare(left=left, ops=[operator], comparators=[other]) if isinstance(operator, operators):
            words = [each.value for each in ast.walk(other) if isinstance(each, ast.Constant)]
            is_flash = bool(words) and all(isinstance(each, str) and each.startswith("flash_att") for each in words)
            return is_flash and "attn_impl" in source.segment(left)
    return False
