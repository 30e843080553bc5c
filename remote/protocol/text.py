"""Escape text from hosts, so that it cannot move a terminal's cursor, change colours, add links or hide text."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple, Union

MAX_LINE = 2000
# C0 and C1 controls and DEL; line and paragraph separators; and Unicode's default ignorable characters, which a
# terminal does not show: zero-width, joining and bidirectional characters, fillers, variation selectors and tags.
_RANGES = """
    00-08 0b-1f 7f-9f 2028-2029 ad 34f 61c 115f-1160 17b4-17b5 180b-180f 200b-200f 202a-202e 2060-206f 3164 fe00-fe0f
    feff ffa0 fff0-fffb 1bca0-1bca3 1d173-1d17a
"""
HIDDEN = frozenset(
    chr(code)
    for first, _, last in (one.partition("-") for one in _RANGES.split())
    for code in range(int(first, 16), int(last or first, 16) + 1)
)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _pair(code: int) -> str:
    """Return a character as a JSON escape. A character above U+FFFF becomes two surrogates."""
    units = chr(code).encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


# There are 4,096 tag characters, too many for a table that every agent builds when it starts.
_TAGS = re.compile("[\U000e0000-\U000e0fff]")
ESCAPES = {ord(char): _escape(ord(char)) for char in HIDDEN}
# The surrogates that Python uses for bytes that are not UTF-8.
ESCAPES.update({code: f"\\x{code - 0xDC00:02x}" for code in range(0xDC80, 0xDD00)})
JSON_ESCAPES = {ord(char): _pair(ord(char)) for char in HIDDEN}
JSON_ESCAPES.update({code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)})


def safe_json(text: str) -> str:
    """Escape all control characters and lone surrogates in JSON, without changing its values."""
    return _TAGS.sub(lambda tag: _pair(ord(tag.group())), text.translate(JSON_ESCAPES))


def safe_text(text: Union[str, bytes], *, max_line: int = MAX_LINE) -> str:
    """Return `text` with every control character escaped, safe for a terminal.

    A carriage return becomes a line feed, bytes that are not UTF-8 become \\xNN, and a line over `max_line` characters
    is cut, with a note. Line feeds and tabs are kept. Escaping an escaped text changes nothing.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(ESCAPES)
    if not text.isascii():
        text = _TAGS.sub(lambda tag: _escape(ord(tag.group())), text).encode("utf-8", "backslashreplace").decode()
    if len(text) <= max_line:
        return text
    return "\n".join(_cut(line, max_line) for line in text.split("\n"))


def _cut(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    mark = "[cut]"
    return line[: limit - len(mark)] + mark


def one_line(text: str) -> str:
    """Return `text` as `safe_text` does, with line feeds and tabs escaped too, so that it stays on one line."""
    return safe_text(text.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t"))


def whole_number(text: str) -> Optional[int]:
    """Return the number of up to nine ASCII digits, or None for any other text.

    `str.isdigit` also accepts digits such as a superscript two, which `int` rejects.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def version_numbers(version: str) -> Tuple[int, ...]:
    """Return the numbers in a version, in order: 2.10rc1 is (2, 10, 1). A number above 10**9 counts as 10**9.

    `int` rejects a number of more than 4,300 digits.
    """
    numbers = (digits.lstrip("0") or "0" for digits in re.findall(r"[0-9]+", version))
    return tuple(int(digits) if len(digits) <= 9 else 10**9 for digits in numbers)


def file_lines(text: str) -> List[str]:
    """Return the lines of a file whose format another program defines, such as known_hosts, without their ends.

    Only a line feed ends a line, with or without a carriage return before it. `str.splitlines` also splits at form
    feeds and Unicode separators, so that it would read a part of a comment as a line.
    """
    return [line[:-1] if line.endswith("\r") else line for line in text.split("\n")]


def line_fields(line: str) -> List[str]:
    """Return the fields of a line, which only spaces and tabs separate. `str.split` also splits at other characters."""
    return [field for field in line.replace("\t", " ").split(" ") if field]


def first_line(text: Union[str, bytes], *, max_line: int = 300) -> str:
    """Return the first line that is not blank, escaped, or ""."""
    for line in safe_text(text, max_line=max_line).split("\n"):
        if line.strip():
            return line.strip()
    return ""
