"""Parse TOML to nodes with byte positions, checked against the values that `tomllib` reads."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from typing import Any

from fixers.sources.nodes import TABLE, Mapping, Node, Scalar, Sequence, Span
from fixers.sources.splice import line_of
from fixers.sources.toml_text import parse_toml
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass, field

BOM = b"\xef\xbb\xbf"
BLANK = re.compile(rb"(?:[ \t\r\n]+|#[^\r\n]*)*+")
SPACE = re.compile(rb"[ \t]*")
STRING = re.compile(
    rb'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\r\n]|\\.)*"|\'[^\'\r\n]*\'',
    re.DOTALL,
)
BARE_KEY = re.compile(rb"[A-Za-z0-9_-]+")
BARE_VALUE = re.compile(rb"[^,\[\]{}#\r\n]*[^,\[\]{}#\r\n \t]")
LINE_END = re.compile(rb"\r\n|\n")


def read_toml(data: bytes) -> Node:
    """Return the document as a mapping with byte positions. Raises Unparsable."""
    offset = len(BOM) if data.startswith(BOM) else 0
    try:
        value = parse_toml(data[offset:].decode("utf-8"))
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise Unparsable(f"not TOML: {error}", int(found[1]) if found else 1) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise Unparsable(f"not TOML: {error}") from None
    node = _Reader(data, (0, *(end.end() for end in LINE_END.finditer(data)))).document(offset)
    if not _agrees(node, value):
        raise Unparsable("TOML whose values could not be located")
    return node


@dataclass
class _Table:
    """A table that is being read. `span` is the range of its header or, for an inline table, of its text."""

    span: Span
    flow: bool = False
    entries: dict[str, tuple[Scalar, Any]] = field(default_factory=dict)

    def node(self) -> Mapping:
        rows = tuple((key, _as_node(value)) for key, value in self.entries.values())
        return Mapping(rows, self.span, tag=TABLE, flow=self.flow)


def _as_node(value: Any) -> Node:
    if isinstance(value, list):
        items = tuple(_as_node(each) for each in value)
        return Sequence(items, items[0].span)
    return value.node() if isinstance(value, _Table) else value


@dataclass(frozen=True)
class _Reader:
    """Reads a file that `tomllib` has already accepted, so that it contains no syntax errors."""

    data: bytes
    lines: tuple[int, ...]

    def document(self, at: int) -> Mapping:
        root = _Table(self.span(at, at))
        table = root
        while (at := self.skip(at)) < len(self.data):
            if self.data.startswith(b"[", at):
                table, at = self.header(root, at)
            else:
                at = self.pair(table, at)
        return root.node()

    def header(self, root: _Table, at: int) -> tuple[_Table, int]:
        """Open `[a.b]` or `[[a.b]]`."""
        listed = self.data.startswith(b"[[", at)
        keys, at = self.keys(at + 1 + listed)
        table = self.inner(root, keys[:-1])
        last = keys[-1]
        opened = _Table(last.span)
        if listed:
            table.entries.setdefault(last.text, (last, []))[1].append(opened)
        else:
            opened = table.entries.setdefault(last.text, (last, opened))[1]
        return opened, self.data.index(b"]", at) + 1 + listed

    def inner(self, table: _Table, keys: list[Scalar]) -> _Table:
        for key in keys:
            held = table.entries.setdefault(key.text, (key, _Table(key.span)))[1]
            table = held[-1] if isinstance(held, list) else held
        return table

    def keys(self, at: int) -> tuple[list[Scalar], int]:
        """Read a dotted key. Returns the position after the key."""
        found: list[Scalar] = []
        while True:
            at = self.space(at)
            key, at = self.key(at)
            found.append(key)
            at = self.space(at)
            if not self.data.startswith(b".", at):
                return found, at
            at += 1

    def key(self, at: int) -> tuple[Scalar, int]:
        bare = BARE_KEY.match(self.data, at)
        if bare is not None:
            return Scalar(bare[0].decode(), self.span(at, bare.end())), bare.end()
        return self.string(at)

    def pair(self, table: _Table, at: int) -> int:
        """Read `key = value` into the table. Returns the position after the value."""
        keys, at = self.keys(at)
        value, at = self.value(self.space(at + 1))
        self.inner(table, keys[:-1]).entries[keys[-1].text] = (keys[-1], value)
        return at

    def value(self, at: int) -> tuple[Any, int]:
        if self.data.startswith((b'"', b"'"), at):
            return self.string(at)
        if self.data.startswith(b"[", at):
            return self.array(at)
        if self.data.startswith(b"{", at):
            return self.inline(at)
        bare = BARE_VALUE.match(self.data, at)
        if bare is None:
            raise Unparsable("TOML whose values could not be located", line_of(self.data, at))
        return Scalar(bare[0].decode(), self.span(at, bare.end())), bare.end()

    def string(self, at: int) -> tuple[Scalar, int]:
        """Read a string. Strings with escapes or line breaks get the style `|`: they cannot be edited in place."""
        found = STRING.match(self.data, at)
        if found is None:
            raise Unparsable("TOML whose values could not be located", line_of(self.data, at))
        text = tomllib.loads(f"x = {found[0].decode('utf-8')}")["x"]
        quote = found[0][:1].decode()
        exact = found[0] == f"{quote}{text}{quote}".encode()
        return Scalar(text, self.span(at, found.end()), quote if exact else "|"), found.end()

    def array(self, start: int) -> tuple[Sequence, int]:
        items: list[Node] = []
        at = self.skip(start + 1)
        while not self.data.startswith(b"]", at):
            value, at = self.value(at)
            items.append(_as_node(value))
            at = self.skip(at)
            at = self.skip(at + 1) if self.data.startswith(b",", at) else at
        return Sequence(tuple(items), self.span(start, at + 1), flow=True), at + 1

    def inline(self, start: int) -> tuple[_Table, int]:
        table = _Table(self.span(start, start), flow=True)
        at = self.skip(start + 1)
        while not self.data.startswith(b"}", at):
            at = self.skip(self.pair(table, at))
            at = self.skip(at + 1) if self.data.startswith(b",", at) else at
        return table, at + 1

    def skip(self, at: int) -> int:
        blank = BLANK.match(self.data, at)
        return blank.end() if blank else at

    def space(self, at: int) -> int:
        space = SPACE.match(self.data, at)
        return space.end() if space else at

    def span(self, start: int, end: int) -> Span:
        line = bisect_right(self.lines, start)
        return Span(start, end, line, start - self.lines[line - 1] + 1)


def _agrees(node: Node, value: Any) -> bool:
    """Return True if the node equals the value that `tomllib` read. Numbers and dates are not compared."""
    match node, value:
        case Mapping(), dict():
            pairs = {key.text: held for key, held in node.entries if isinstance(key, Scalar)}
            return list(pairs) == list(value) and all(_agrees(pairs[key], value[key]) for key in value)
        case Sequence(), list():
            return len(node.items) == len(value) and all(map(_agrees, node.items, value))
        case Scalar(), str():
            return bool(node.style) and node.text == value
        case Scalar(), bool():
            return node.text == str(value).lower()
        case Scalar(), _:
            return not node.style and not isinstance(value, (dict, list))
    return False
