"""Python syntax trees with byte positions, and edits that keep the file's encoding and line ends."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

from fixers.sources.innermost import innermost
from fixers.sources.lines import line_starts
from fixers.sources.names import Names, index_names
from fixers.sources.python_text import MappedText, map_python, parse_module
from fixers.sources.shells import is_shell
from fixers.sources.splice import Edit, EditRefused, line_of, newline_of
from fixers.sources.syntax import count_words, parse_python

T = TypeVar("T")
PROSE = re.compile(r"\s")
NAMING = (ast.Name, ast.Attribute, ast.keyword, ast.alias, ast.arg, ast.Import, ast.ImportFrom, ast.JoinedStr)
Located = ast.expr | ast.stmt | ast.keyword | ast.alias | ast.arg | ast.pattern
CLOSES = re.compile(rb"(?:[ \t\f\r\n\\]|#[^\r\n]*+)*+\)")
OWN_LINE_ENDS = re.compile(rb"[ \t]*,[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n)")
BETWEEN = re.compile(rb"[ \t\f\r\n]*(?:,[ \t\f\r\n]*)?")
OPENING_QUOTE = re.compile(r"[a-zA-Z]*(['\"])")


class PythonSource:
    """A module, or the cells of a notebook read as one module."""

    def __init__(self, path: str, data: bytes, mapped: MappedText, tree: ast.Module) -> None:
        self.path = path
        self.data = data
        self.text = mapped.text
        self.tree = tree
        self.unread = mapped.unread
        self._mapped = mapped
        self._remembered: dict[str, Any] = {}
        self._lines = line_starts(mapped.text)

    @cached_property
    def names(self) -> Names:
        """Return the index of the module's names."""
        return index_names(self.tree)

    def remember(self, key: str, make: Callable[[], T]) -> T:
        """Return the result of `make`, computed once per source."""
        if key not in self._remembered:
            self._remembered[key] = make()
        return cast(T, self._remembered[key])

    def mentions(self, pattern: re.Pattern[bytes]) -> bool:
        """Return True if the pattern matches a name or a string of one word.

        Matches in comments and prose do not count.
        """
        return any(self._is_code(match.start()) for match in pattern.finditer(self.text))

    def _is_code(self, offset: int) -> bool:
        line = bisect_right(self._lines, offset)
        found = innermost(self.tree, line, offset - self._lines[line - 1])
        if isinstance(found, ast.Constant):
            return isinstance(found.value, str) and not PROSE.search(found.value)
        return isinstance(found, NAMING)

    def span(self, node: Located) -> tuple[int, int]:
        """Return the node's range in `text`."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def segment(self, node: Located) -> str:
        """Return the node's source text."""
        start, end = self.span(node)
        return self.text[start:end].decode("utf-8")

    def replace(self, start: int, expected: str, replacement: str, why: str) -> Edit:
        """Return the edit that replaces `expected` at `start` of `text`. Raises EditRefused."""
        end = start + len(expected.encode())
        first, last = self._mapped.file_range(start, end)
        if self.text[start:end] != expected.encode():
            raise EditRefused(f"expected {expected!r} at this position ({why})", first)
        return Edit(first, self.data[first:last], self._mapped.encode(replacement, start), why)

    def replace_node(self, node: Located, replacement: str, why: str) -> Edit:
        return self.replace(self.span(node)[0], self.segment(node), replacement, why)

    def replace_attribute(self, node: ast.Attribute, replacement: str, why: str) -> Edit:
        """Return the edit that renames the attribute after the dot."""
        return self.replace(self.span(node)[1] - len(node.attr.encode()), node.attr, replacement, why)

    def replace_keyword(self, keyword: ast.keyword, replacement: str, why: str) -> Edit:
        """Return the edit that renames a keyword argument and keeps its value."""
        assert keyword.arg is not None
        return self.replace(self.span(keyword)[0], keyword.arg, replacement, why)

    def insert(self, at: int, text: str, why: str) -> Edit:
        return self.replace(at, "", text, why)

    def insert_argument_before(self, keyword: ast.keyword, written: str, why: str) -> Edit:
        """Return the edit that inserts a keyword argument before `keyword`.

        If `keyword` starts a line, insert a new line.
        """
        at = self.span(keyword)[0]
        before = self.text[self._lines[keyword.lineno - 1] : at]
        gap = newline_of(self.text).decode() + before.decode() if not before.strip(b" \t\f") else " "
        return self.insert(at, f"{written},{gap}", why)

    def append_argument(self, call: ast.Call, written: str, why: str) -> Edit:
        """Return the edit that appends a keyword argument to the call."""
        arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        ends = [self.span(argument)[1] for argument in arguments]
        close = self.span(call)[1] - 1
        if not ends:
            return self.insert(close, written, why)
        at = max(ends)
        while (bracket := CLOSES.match(self.text, at, close)) is not None:
            at = bracket.end()
        return self.insert(at, f", {written}", why)

    def remove_argument(self, call: ast.Call, keyword: ast.keyword, why: str) -> Edit | None:
        """Return the edit that removes a keyword argument, its comma, and its lines if they contain nothing else.

        Return None if comments or brackets separate the argument from its neighbours.
        """
        span = self._own_lines(keyword) or self._between_neighbours(call, keyword)
        return self.replace(span[0], self.text[span[0] : span[1]].decode("utf-8"), "", why) if span else None

    def remove_own_lines(self, first: Located, last: Located, why: str) -> Edit | None:
        """Return the edit that removes the lines of `first` to `last`, or None if other code is on these lines."""
        start, end = self._lines[first.lineno - 1], self.span(last)[1]
        rest = OWN_LINE_ENDS.match(self.text, end)
        if rest is None or self.text[start : self.span(first)[0]].strip():
            return None
        return self.replace(start, self.text[start : rest.end()].decode("utf-8"), "", why)

    def _own_lines(self, keyword: ast.keyword) -> tuple[int, int] | None:
        start, end = self.span(keyword)
        first = self._lines[keyword.lineno - 1]
        rest = OWN_LINE_ENDS.match(self.text, end)
        return (first, rest.end()) if rest and not self.text[first:start].strip() else None

    def _between_neighbours(self, call: ast.Call, keyword: ast.keyword) -> tuple[int, int] | None:
        arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        arguments.sort(key=lambda argument: self.span(argument)[0])
        at = arguments.index(keyword)
        start, end = self.span(keyword)
        if at:
            before = self.span(arguments[at - 1])[1]
            return (before, end) if BETWEEN.fullmatch(self.text, before, start) else None
        after = self.span(arguments[1])[0] if len(arguments) > 1 else end
        return (start, after) if BETWEEN.fullmatch(self.text, end, after) else None

    def indentation(self, statement: ast.stmt) -> str | None:
        """Return the blanks before the statement on its line, or None if other code precedes it."""
        start = self._lines[statement.lineno - 1]
        before = self.text[start : start + statement.col_offset]
        return before.decode() if not before.strip(b" \t\f") else None

    def insert_before(self, statement: ast.stmt, lines: tuple[str, ...], why: str) -> Edit | None:
        """Return the edit that inserts indented lines before a statement, or None if other code is on its line."""
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        indentation = self.indentation(statement)
        if indentation is None:
            return None
        first = min([statement.lineno, *(each.lineno for each in decorators)])
        newline = newline_of(self.text).decode()
        return self.insert(self._lines[first - 1], "".join(f"{indentation}{line}{newline}" for line in lines), why)

    def insert_after(self, statement: ast.stmt, lines: tuple[str, ...], why: str) -> Edit | None:
        """Return the edit that inserts indented lines after a statement, or None if other code is on its last line."""
        indentation = self.indentation(statement)
        end = self.span(statement)[1]
        line = bisect_right(self._lines, end)
        rest_end = self._lines[line] if line < len(self._lines) else len(self.text)
        rest = self.text[end:rest_end].strip()
        if indentation is None or (rest and not rest.startswith(b"#")):
            return None
        newline = newline_of(self.text).decode()
        body = "".join(f"{indentation}{each}{newline}" for each in lines)
        if rest_end - 1 in self._mapped.inserted_newlines:
            return self.insert(rest_end - 1, newline + body.removesuffix(newline), why)
        ended = self.text[:rest_end].endswith((b"\n", b"\r"))
        return self.insert(rest_end, body if ended else newline + body, why)

    def quote_for(self, node: ast.AST) -> str | None:
        """Return the quote character for a string inserted in the node.

        Return None if enclosing f-strings use both quote characters.
        """
        literals = (above for above in self.names.ancestors(node) if isinstance(above, ast.JoinedStr))
        taken = {match[1] for above in literals if (match := OPENING_QUOTE.match(self.segment(above)))}
        return next((quote for quote in ('"', "'") if quote not in taken), None)

    def where(self, node: Located) -> str:
        """Return the node's location as `path:line`. For a notebook, it is the line in the JSON file."""
        start = self.span(node)[0]
        return f"{self.path}:{line_of(self.data, self._mapped.file_range(start, start)[0])}"


def reads_python(path: str) -> bool:
    """Return True for the path of a module, a notebook, or a shell script, which may contain Python heredocs."""
    return path.endswith((".py", ".pyw", ".ipynb")) or is_shell(path)


class KeptTrees:
    """A cache of parsed modules for later planning steps, up to a limit of source bytes.

    The memory of a tree grows with its words and signs, which have four or more bytes on average in written code.
    Denser code counts as if each of them had this size.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._held: dict[tuple[str, bytes], PythonSource] = {}
        self._plain: dict[bytes, ast.Module] = {}

    def read(self, path: str, data: bytes) -> PythonSource:
        """Parse the file, and cache the result if it fits. Raises Unparsable with the line."""
        source = self._held.get((path, data))
        if source is None:
            source = read_python(path, data)
            if self._fits(data):
                self._held[path, data] = source
                self._size += _weight(data)
        return source

    def take(self, path: str, data: bytes) -> PythonSource:
        """Remove the file's tree from the cache and return it. If the file is not cached, parse it."""
        source = self._held.pop((path, data), None)
        if source is None:
            return read_python(path, data)
        self._size -= _weight(data)
        return source

    def parse(self, data: bytes) -> ast.Module:
        """Parse a module as its bytes declare, and cache its tree if it fits. Raises SyntaxError."""
        tree = self._plain.get(data)
        if tree is None:
            tree = parse_python(data)
            if self._fits(data):
                self._plain[data] = tree
                self._size += _weight(data)
        return tree

    def clear(self) -> None:
        self._held.clear()
        self._plain.clear()
        self._size = 0

    def _fits(self, data: bytes) -> bool:
        return self._size + len(data) <= self._limit and self._size + _weight(data) <= self._limit


def _weight(data: bytes) -> int:
    """Return the size of the code, or four bytes for each of its words and signs if that is more."""
    return max(len(data), 4 * count_words(data))


def read_python(path: str, data: bytes) -> PythonSource:
    """Parse the file as Python. Raises Unparsable with the line."""
    mapped = map_python(path, data)
    return PythonSource(path, data, mapped, parse_module(mapped.text))


TREES = KeptTrees(2 * 2**20)
