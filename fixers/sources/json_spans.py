"""JSON as nodes that know their bytes: duplicate keys are kept, comments and trailing commas of JSONC are read over.

Strings are scalars of style `"`; numbers, true, false and null are plain scalars, as written: nothing is rounded.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass

from fixers.sources.nodes import Mapping, Node, Place, Scalar, Sequence
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable

MAX_DEPTH = 200
BOM = b"\xef\xbb\xbf"
BLANK = re.compile(rb"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
LINE_END = re.compile(rb"\r\n|\r|\n")
STRING = re.compile(rb'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"')
WORD = re.compile(
    rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?![\w.+-])|(?:true|false|null|NaN|-?Infinity)\b"
)


@dataclass(frozen=True)
class _Reader:
    data: bytes
    lines: tuple[int, ...]

    def fail(self, message: str, at: int) -> Unparsable:
        return Unparsable(message, line_of(self.data, at))

    def skip(self, at: int) -> int:
        match = BLANK.match(self.data, at)
        return match.end() if match else at

    def place(self, start: int, end: int) -> Place:
        line = bisect_right(self.lines, start)
        return Place(start, end, line, start - self.lines[line - 1] + 1)

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
            return Scalar(self.text(string[1], at), self.place(at, string.end()), '"')
        if word := WORD.match(self.data, at):
            return Scalar(word[0].decode(), self.place(at, word.end()))
        raise self.fail("the file ends too early" if at >= len(self.data) else "no JSON value begins here", at)

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
            at = self.after(items[-1].place.end, b"]")
        return Sequence(tuple(items), self.place(start, at + 1), flow=True)

    def mapping(self, start: int, depth: int) -> Mapping:
        entries: list[tuple[Node, Node]] = []
        at = self.skip(start + 1)
        while self.data[at : at + 1] != b"}":
            key = self.scalar(at)
            colon = self.skip(key.place.end)
            if key.style != '"' or self.data[colon : colon + 1] != b":":
                raise self.fail("a quoted key and a colon belong here", at)
            value = self.value(self.skip(colon + 1), depth + 1)
            entries.append((key, value))
            at = self.after(value.place.end, b"}")
        return Mapping(tuple(entries), self.place(start, at + 1), flow=True)

    def after(self, at: int, closing: bytes) -> int:
        """Where the next item or the closing bracket is."""
        at = self.skip(at)
        if self.data[at : at + 1] == b",":
            return self.skip(at + 1)
        if self.data[at : at + 1] != closing:
            raise self.fail(f"a comma or {closing.decode()} belongs here", at)
        return at


def read_json(data: bytes) -> Node:
    """The file's only value. Raises Unparsable."""
    reader = _Reader(data, (0, *(end.end() for end in LINE_END.finditer(data))))
    node = reader.value(reader.skip(len(BOM) if data.startswith(BOM) else 0), 0)
    end = reader.skip(node.place.end)
    if end < len(data):
        raise reader.fail("something follows the end of the value", end)
    return node
