"""Parse JSON to nodes with byte positions. By default, comments, trailing commas and duplicate keys are accepted.

Strings are scalars of style `"`. Numbers, true, false and null are plain scalars with their original spelling.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain, count

from fixers.sources.nodes import Mapping, Node, Scalar, Sequence, Span
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass, field

MAX_DEPTH = 200
MAX_VALUES = 500_000
"""A node takes about 600 bytes of memory, even for a value of one character."""
BOM = b"\xef\xbb\xbf"
BLANK = re.compile(rb"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*+", re.DOTALL)
STRICT_BLANK = re.compile(rb"[ \t\r\n]*")
LINE_END = re.compile(rb"\r\n|\r|\n")
STRING = re.compile(rb'"((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"')
WORD = re.compile(
    rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?![\w.+-])|(?:true|false|null|NaN|-?Infinity)\b"
)
CHARACTER = re.compile(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u....|\\.|.", re.DOTALL)


def read_json(data: bytes, *, strict: bool = False) -> Node:
    """Parse the file's single value.

    With `strict`, accept only standard JSON without duplicate keys. Raises Unparsable.
    """
    starts = array("Q", chain((0,), (end.end() for end in LINE_END.finditer(data))))
    reader = _Reader(data, starts, strict)
    node = reader.value(reader.skip(len(BOM) if data.startswith(BOM) else 0), 0)
    end = reader.skip(node.span.end)
    if end < len(data):
        raise reader.fail("unexpected data after the JSON value", end)
    return node


def holds_json_lines(data: bytes) -> bool:
    """Return True if each line is a JSON record. Such a file contains data, not settings."""
    lines = [line for line in LINE_END.split(data, maxsplit=2)[:2] if line.strip()]
    try:
        return len(lines) == 2 and all(isinstance(json.loads(line), (dict, list)) for line in lines)
    except ValueError:
        return False


@dataclass(frozen=True)
class JsonString:
    """A string: its value, the source text between the quotes, and the byte offset of that text in the file."""

    value: str
    written: str
    start: int

    @property
    def end(self) -> int:
        """Return the offset of the closing quote."""
        return self.start + len(self.written.encode())

    @property
    def utf8_length(self) -> int:
        return len(self.value.encode("utf-8", "surrogatepass"))

    def file_offset(self, offset: int) -> int:
        """Convert a UTF-8 offset in the value to a byte offset in the file."""
        decoded_bytes, at = 0, self.start
        for unit in CHARACTER.finditer(self.written):
            if decoded_bytes >= offset:
                break
            character = str(json.loads(f'"{unit[0]}"')) if unit[0][0] == "\\" else unit[0]
            at += len(unit[0].encode())
            decoded_bytes += len(character.encode("utf-8", "surrogatepass"))
        return at


def json_string(data: bytes, node: Node | None) -> JsonString | None:
    """Return the node as a string with positions, or None if it is not a string."""
    if not isinstance(node, Scalar) or not node.style:
        return None
    start = node.span.start + 1
    return JsonString(node.text, data[start : node.span.end - 1].decode("utf-8"), start)


@dataclass(frozen=True)
class _Reader:
    data: bytes
    starts: array[int]
    strict: bool
    numbers: Iterator[int] = field(default_factory=count)

    def fail(self, message: str, at: int) -> Unparsable:
        return Unparsable(message, line_of(self.data, at))

    def skip(self, at: int) -> int:
        match = (STRICT_BLANK if self.strict else BLANK).match(self.data, at)
        return match.end() if match else at

    def span(self, start: int, end: int) -> Span:
        if next(self.numbers) >= MAX_VALUES:
            raise self.fail(f"more than {MAX_VALUES:,} values and keys", start)
        line = bisect_right(self.starts, start)
        return Span(start, end, line, start - self.starts[line - 1] + 1)

    def value(self, at: int, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.fail(f"nested more than {MAX_DEPTH} levels deep", at)
        first = self.data[at : at + 1]
        if first == b"{":
            return self.mapping(at, depth)
        if first == b"[":
            return self.sequence(at, depth)
        return self.scalar(at)

    def scalar(self, at: int) -> Scalar:
        if string := STRING.match(self.data, at):
            return Scalar(self.text(string[1], at), self.span(at, string.end()), '"')
        if word := WORD.match(self.data, at):
            return Scalar(word[0].decode(), self.span(at, word.end()))
        raise self.fail("unexpected end of file" if at >= len(self.data) else "expected a JSON value", at)

    def text(self, raw: bytes, at: int) -> str:
        try:
            text = raw.decode("utf-8")
            return str(json.loads(f'"{text}"')) if "\\" in text else text
        except UnicodeDecodeError as error:
            raise self.fail(f"byte {at + 1 + error.start} is not UTF-8", at) from None

    def sequence(self, start: int, depth: int) -> Sequence:
        items: list[Node] = []
        at = self.skip(start + 1)
        while self.data[at : at + 1] != b"]":
            items.append(self.value(at, depth + 1))
            at = self.after(items[-1].span.end, b"]")
        return Sequence(tuple(items), self.span(start, at + 1), flow=True)

    def mapping(self, start: int, depth: int) -> Mapping:
        entries: list[tuple[Node, Node]] = []
        keys: set[str] = set()
        at = self.skip(start + 1)
        while self.data[at : at + 1] != b"}":
            key = self.scalar(at)
            colon = self.skip(key.span.end)
            if key.style != '"' or self.data[colon : colon + 1] != b":":
                raise self.fail("expected a quoted key and a colon", at)
            if self.strict and key.text in keys:
                raise self.fail(f"duplicate key {key.text!r}", at)
            keys.add(key.text)
            value = self.value(self.skip(colon + 1), depth + 1)
            entries.append((key, value))
            at = self.after(value.span.end, b"}")
        return Mapping(tuple(entries), self.span(start, at + 1), flow=True)

    def after(self, at: int, closing: bytes) -> int:
        """Return the offset of the next item, or of the closing bracket."""
        at = self.skip(at)
        if self.data[at : at + 1] != b",":
            if self.data[at : at + 1] != closing:
                raise self.fail(f"expected a comma or {closing.decode()}", at)
            return at
        at = self.skip(at + 1)
        if self.strict and self.data[at : at + 1] == closing:
            raise self.fail("trailing comma", at)
        return at
