"""INI files as nodes with byte positions, checked against the values that `configparser` reads."""

from __future__ import annotations

import re
from configparser import Error, RawConfigParser
from dataclasses import replace

from fixers.sources.nodes import TABLE, Mapping, Node, Scalar, Span
from fixers.sources.unparsable import Unparsable, require_small

LARGEST_BYTES = 2**20
BOM = b"\xef\xbb\xbf"
LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|$)")
SECTION = re.compile(rb"\[(?P<header>.+)\]")
PAIR = re.compile(rb"(?P<key>[^\s=:#;\[][^=:\r\n]*?)[ \t]*[=:][ \t]*(?P<value>[^\r\n]*?)[ \t]*(?=[\r\n]|$)")


def read_ini(data: bytes) -> Node:
    """Return the sections as mappings from lowercase keys to one-line values. Raises Unparsable."""
    require_small(len(data), LARGEST_BYTES)
    offset = len(BOM) if data.startswith(BOM) else 0
    parser = RawConfigParser(strict=False, allow_no_value=True, default_section="")
    try:
        parser.read_string(data[offset:].decode("utf-8"))
    except (Error, UnicodeDecodeError) as error:
        raise Unparsable(f"not INI: {str(error).splitlines()[0]}", getattr(error, "lineno", 1)) from None
    rows = [
        (key, value, section)
        for key, value, section in _pairs(data, offset)
        if _written(value) == parser.get(section, key.text, fallback=None)
    ]
    return _sections(rows)


def _written(value: Scalar) -> str:
    return f"{value.style}{value.text}{value.style}"


def _pairs(data: bytes, at: int) -> list[tuple[Scalar, Scalar, str]]:
    """Return every line `key = value`, with the name of its section."""
    found: list[tuple[Scalar, Scalar, str]] = []
    section, number = "", 1
    while at < len(data):
        line = LINE.match(data, at)
        assert line is not None
        if header := SECTION.match(data, at):
            section = header["header"].decode("utf-8")
        elif pair := PAIR.match(data, at):
            key, value = (_scalar(data, *pair.span(name), at, number) for name in ("key", "value"))
            found.append((replace(key, text=key.text.lower()), value, section))
        at, number = line.end(), number + 1
    return found


def _scalar(data: bytes, start: int, end: int, line_start: int, number: int) -> Scalar:
    text = data[start:end].decode("utf-8")
    quoted = len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]
    style = text[0] if quoted else ""
    return Scalar(text[1:-1] if quoted else text, Span(start, end, number, start - line_start + 1), style)


def _sections(rows: list[tuple[Scalar, Scalar, str]]) -> Mapping:
    """Return a mapping of sections with the last value of each key, because INI parsers ignore earlier values."""
    sections: dict[str, dict[str, tuple[Scalar, Scalar]]] = {}
    for key, value, section in rows:
        sections.setdefault(section, {})[key.text] = (key, value)
    entries: list[tuple[Node, Node]] = []
    for name, pairs in sections.items():
        first = next(iter(pairs.values()))[0].span
        entries.append((Scalar(name, first), Mapping(tuple(pairs.values()), first, tag=TABLE)))
    return Mapping(tuple(entries), Span(0, 0, 1, 1), tag=TABLE)
