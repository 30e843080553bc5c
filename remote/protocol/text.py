"""Escape text from hosts for the terminal: nothing can move the cursor, change colours, add links or hide text."""

from __future__ import annotations

from typing import Union

MAX_LINE = 2000
KEPT = "\n\t"
# C0 and C1 controls and DEL; bidirectional controls, marks and isolates; line and paragraph separators.
HIDDEN = frozenset(
    [chr(code) for code in range(0x20) if chr(code) not in KEPT]
    + [chr(code) for code in range(0x7F, 0xA0)]
    + [chr(code) for code in (0x061C, 0x200E, 0x200F, 0x2028, 0x2029, 0xFEFF)]
    + [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))]
)
ESCAPES = {ord(char): f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}" for char in HIDDEN}
# The surrogates by which Python represents bytes that are not UTF-8.
ESCAPES.update({code: f"\\x{code - 0xDC00:02x}" for code in range(0xDC80, 0xDD00)})
JSON_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in HIDDEN}
JSON_ESCAPES.update({code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)})


def safe_json(text: str) -> str:
    """Escape all control characters and lone surrogates in JSON, without changing its values."""
    return text.translate(JSON_ESCAPES)


def safe_text(text: Union[str, bytes], *, max_line: int = MAX_LINE) -> str:
    """Return `text` with every control character escaped, safe for a terminal.

    A carriage return becomes a line feed, bytes that are not UTF-8 become \\xNN, a line over `max_line` characters is
    cut, with a note. Line feeds and tabs stay. Escaping an escaped text changes nothing.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(ESCAPES)
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= max_line:
        return text
    return "\n".join(_cut(line, max_line) for line in text.split("\n"))


def _cut(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    mark = "[cut]"
    return line[: limit - len(mark)] + mark


def first_line(text: Union[str, bytes], *, max_line: int = 300) -> str:
    """Return the first line that is not blank, escaped, or an empty string."""
    for line in safe_text(text, max_line=max_line).split("\n"):
        if line.strip():
            return line.strip()
    return ""
