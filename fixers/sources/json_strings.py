"""JSON as plain values whose strings know their bytes; numbers and literals are only skipped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]

WHITE = re.compile(r"[ \t\n\r]*")
SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|NaN|-?Infinity")
UNIT = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL)
DEEPEST = 200


class NotJson(ValueError):
    """The bytes are not one JSON document; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True)
class JsonString:
    """A string: its value, as it is written between the quotes, and where that begins in the file."""

    value: str
    written: str
    start: int

    @property
    def end(self) -> int:
        """Where the closing quote lies."""
        return self.start + len(self.written.encode("utf-8", "surrogatepass"))

    @property
    def utf8_length(self) -> int:
        return len(self.value.encode("utf-8", "surrogatepass"))

    def place(self, offset: int) -> int:
        """Where the character at that UTF-8 offset of the value is written."""
        passed = at = 0
        pending = ""
        for unit in UNIT.finditer(self.written):
            if passed >= offset and not pending:
                break
            pending += unit[0]
            at += len(unit[0].encode("utf-8", "surrogatepass"))
            character = scanstring(pending + '"', 0, False)[0]
            if len(character) == 1 and "\ud800" <= character <= "\udbff" and self._pairs(unit.end()):
                continue
            passed += len(character.encode("utf-8", "surrogatepass"))
            pending = ""
        return self.start + at

    def _pairs(self, at: int) -> bool:
        return re.match(r"\\u[dD][c-fC-F]", self.written[at : at + 4]) is not None


Json = dict[str, "Json"] | list["Json"] | JsonString | str | None


def parse_json(data: bytes) -> Json:
    """The document: objects, lists, JsonStrings; other scalars as they are written. Raises NotJson."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotJson(f"not UTF-8: {error.reason}", 1 + data[: error.start].count(b"\n")) from None
    parser = _Parser(text.removeprefix("\ufeff"), 3 if text.startswith("\ufeff") else 0)
    return parser.document()


class _Parser:
    def __init__(self, text: str, offset: int) -> None:
        self._text = text
        self._at = 0
        self._bytes_at = (0, offset)

    def document(self) -> Json:
        value = self._value(0)
        self._skip()
        if self._at != len(self._text):
            raise self._wrong("more after the document")
        return value

    def _value(self, depth: int) -> Json:
        if depth > DEEPEST:
            raise self._wrong("nested too deeply")
        self._skip()
        match self._text[self._at : self._at + 1]:
            case "{":
                return self._object(depth)
            case "[":
                return self._list(depth)
            case '"':
                return self._string()
        scalar = SCALAR.match(self._text, self._at)
        if scalar is None:
            raise self._wrong("expected a value")
        self._at = scalar.end()
        return scalar[0]

    def _object(self, depth: int) -> dict[str, Json]:
        self._at += 1
        items: dict[str, Json] = {}
        while not self._takes("}", first=not items):
            self._skip()
            key = self._string()
            self._expect(":")
            if key.value in items:
                raise self._wrong(f"the key {key.value!r} is there twice")
            items[key.value] = self._value(depth + 1)
        return items

    def _list(self, depth: int) -> list[Json]:
        self._at += 1
        items: list[Json] = []
        while not self._takes("]", first=not items):
            items.append(self._value(depth + 1))
        return items

    def _takes(self, close: str, *, first: bool) -> bool:
        """The closing bracket is taken; else the comma before the next item is."""
        self._skip()
        if self._text[self._at : self._at + 1] == close:
            self._at += 1
            return True
        if not first:
            self._expect(",")
        return False

    def _expect(self, mark: str) -> None:
        self._skip()
        if self._text[self._at : self._at + 1] != mark:
            raise self._wrong(f"expected {mark!r}")
        self._at += 1

    def _string(self) -> JsonString:
        if self._text[self._at : self._at + 1] != '"':
            raise self._wrong("expected a string")
        begin = self._at + 1
        try:
            value, self._at = scanstring(self._text, begin, True)
        except ValueError as error:
            raise self._wrong(str(error).partition(":")[0]) from None
        return JsonString(value, self._text[begin : self._at - 1], self._byte(begin))

    def _byte(self, at: int) -> int:
        """The file's offset of a character; asked in rising order."""
        known, offset = self._bytes_at
        offset += len(self._text[known:at].encode("utf-8", "surrogatepass"))
        self._bytes_at = (at, offset)
        return offset

    def _skip(self) -> None:
        white = WHITE.match(self._text, self._at)
        self._at = white.end() if white else self._at

    def _wrong(self, message: str) -> NotJson:
        return NotJson(message, 1 + self._text.count("\n", 0, self._at))
