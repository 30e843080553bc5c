"""Parse Python of foreign projects within limits of size and depth."""

from __future__ import annotations

import ast
import re
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from fixers.sources.child_nodes import FIELDS, child_nodes

LARGEST_BYTES = 2**20
MOST_WORDS = 200_000
"""A syntax tree needs up to 1.5 kB for each word and sign of its source. Written code has 5 bytes for each of them."""
WORD_OR_SIGN = re.compile(rb"\w+|[^\w\s]")
LONG_BYTES = 2**16
DEEPEST = 200
"""Functions of this program and of `ast` that visit a tree recursively need up to four calls for a level. Python allows
about 1,000 nested calls."""
MOST_BITS = 14_284
"""Python converts no integer of more than 4,300 decimal digits to text, whatever the base of its literal."""
LOCATED = (ast.expr, ast.stmt)
SHORT_BYTES = 80
"""The levels within code of one line and this length are not counted, because counting them takes most of the time."""


class Oversized(SyntaxError):
    """The code is too large or too deep to be analysed."""


def parse_python(source: bytes | str) -> ast.Module:
    """Return the syntax tree. Raises SyntaxError for invalid Python, and for code that is too large or too deep."""
    if len(source) > LARGEST_BYTES:
        raise Oversized(f"{len(source)} bytes of Python: too large to be a source file")
    if len(source) > MOST_WORDS and (words := count_words(source)) > MOST_WORDS:
        raise Oversized(f"{words:,} words and signs of Python: too large to be a source file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _ended_by_ctrl_c() if len(source) > LONG_BYTES else nullcontext():
                tree = ast.parse(source)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error) or type(error).__name__) from None
    _require_analysable(tree)
    return tree


def count_words(source: bytes | str) -> int:
    """Return the number of words and signs in the source, also in its texts and comments."""
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    return sum(1 for _ in WORD_OR_SIGN.finditer(data))


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the process during one long call, after which Python would otherwise handle the signal.

    `ast.parse` compares the combining characters of a name, and in Python before 3.12 the lines before each value in an
    f-string, with each other: a file of 1 MiB can take an hour. Other threads cannot change the handler. The process
    then ends without a message, so this is not used for files that take seconds at most.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _require_analysable(tree: ast.Module) -> None:
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        if (huge := next(filter(_is_huge, level), None)) is not None:
            raise _at_line(Oversized("an integer of more than 4,300 digits: too long to be analysed"), [huge])
        children = (child for node in level for child in child_nodes(node, FIELDS[node.__class__]))
        level = [child for child in children if not _is_short(child)]
        if not level:
            return
    raise _at_line(Oversized(f"code of more than {DEEPEST} nested levels: too deep to be analysed"), level)


def _at_line(error: Oversized, nodes: list[ast.AST]) -> Oversized:
    error.lineno = min((line for node in nodes if (line := getattr(node, "lineno", 0))), default=1)
    return error


def _is_huge(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value.bit_length() > MOST_BITS


def _is_short(node: ast.AST) -> bool:
    if not isinstance(node, LOCATED):
        return False
    return node.lineno == node.end_lineno and (node.end_col_offset or 0) - node.col_offset < SHORT_BYTES
