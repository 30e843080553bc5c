"""Create float16 branches from bfloat16 branches: the same code with float16 values and dtypes."""

from __future__ import annotations

import ast

from fixers.settings.precision_words import COUNTERPARTS
from fixers.sources.chosen_words import rewritten_literal
from fixers.sources.python import PythonSource
from fixers.sources.splice import newline_of
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Insertion:
    """Text to insert at a position of the source's text."""

    at: int
    text: str


def new_branch(source: PythonSource, branch: ast.If) -> Insertion | None:
    """Return the insertion of `elif x == "fp16": ...` after the branch, or None (see `_after`)."""
    return _after(source, branch.body[0], f"elif {_counterpart_text(source, branch.test)}:", branch.col_offset)


def new_case(source: PythonSource, case: ast.match_case) -> Insertion | None:
    """Return the insertion of `case "fp16": ...` after the case, or None (see `_after`)."""
    guard = f" if {source.segment(case.guard)}" if case.guard is not None else ""
    pattern = _counterpart_text(source, case.pattern)
    start = source.span(case.pattern)[0]
    line = source.text[source.text.rfind(b"\n", 0, start) + 1 : start]
    return _after(source, case.body[0], f"case {pattern}{guard}:", len(line) - len(line.lstrip()))


def new_choice(source: PythonSource, choice: ast.IfExp) -> Insertion:
    """Return the insertion of `torch.float16 if x == "fp16" else` before the value of the `else`."""
    text = f"{_counterpart_text(source, choice.body)} if {_counterpart_text(source, choice.test)} else "
    return Insertion(source.span(choice.orelse)[0], text)


def _after(source: PythonSource, statement: ast.stmt, head: str, column: int) -> Insertion | None:
    """Return the insertion of the float16 branch, on one line if the bfloat16 branch is on one line.

    Return None if other code is on a line of the branch.
    """
    start, end = source.span(statement)
    lines = source.text
    stop = lines.find(b"\n", end)
    stop = len(lines) if stop == -1 else stop
    rest = lines[end:stop].strip()
    if rest and not rest.startswith(b"#"):
        return None
    stop -= lines[:stop].endswith(b"\r")
    newline = newline_of(lines).decode()
    before = lines[lines.rfind(b"\n", 0, start) + 1 : start]
    margin = before[:column].decode()
    gap = " " if before.strip() else newline + before.decode()
    if margin.strip():
        return None
    return Insertion(stop, f"{newline}{margin}{head}{gap}{_counterpart_text(source, statement)}")


def _counterpart_text(source: PythonSource, node: ast.expr | ast.stmt | ast.pattern) -> str:
    """Return the node's text with float16 instead of bfloat16."""
    start = source.span(node)[0]
    text = source.text[start : source.span(node)[1]]
    for each in sorted(ast.walk(node), key=_position, reverse=True):
        replacement = _counterpart_of(source, each)
        if replacement is not None:
            assert isinstance(each, ast.expr)
            first, last = source.span(each)
            text = text[: first - start] + replacement.encode() + text[last - start :]
    return text.decode()


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _counterpart_of(source: PythonSource, node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str(word)) if word in COUNTERPARTS:
            return rewritten_literal(source, node, COUNTERPARTS[word])
        case ast.Attribute(attr="bfloat16", value=owner):
            return f"{source.segment(owner)}.float16"
        case ast.Name(id="bfloat16"):
            return "float16"
    return None
