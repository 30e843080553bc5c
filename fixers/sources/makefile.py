"""Parse a Makefile to commands: recipe lines as shell commands, and variables as words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fixers.sources.shell_words import scan_shell
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Assignment, Command, Script, Word

LINE = re.compile(rb"(?:[^\\\r\n]|\\\r?\n|\\[^\r\n]|\\(?=\r?$))*(?:\r?\n|\r|$)")
VARIABLE = re.compile(rb"[ ]*(?:(?:export|override|private)[ \t]+)*([A-Za-z_][\w.-]*)[ \t]*(?:::?:?|\?|\+|!)?=[ \t]*")
PREFIX = re.compile(rb"[\t ]*(?:[@+-]+[ \t]*)?")


def scan_makefile(data: bytes) -> Script:
    """Return the commands of all recipes, and all variables. Lines that do not parse as shell are skipped."""
    commands: list[Command] = []
    in_define = False
    for start, stop in _logical_lines(data):
        line = data[start:stop]
        if line.startswith((b"define ", b"endef")):
            in_define = line.startswith(b"define ")
        elif line.startswith(b"\t") or in_define:
            prefix = PREFIX.match(data, start, stop)
            commands += _scan(data, prefix.end() if prefix else start, stop)
        elif variable := VARIABLE.match(data, start, stop):
            commands.append(_variable(data, variable, stop))
        elif b";" in line and b":" in line and not line.lstrip().startswith(b"#"):
            commands += _scan(data, data.index(b";", start) + 1, stop)
    return Script(tuple(commands))


def _logical_lines(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the range of each line with its continuation lines, excluding the final line break."""
    at = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    while at < len(data):
        match = LINE.match(data, at)
        end = match.end() if match and match.end() > at else len(data)
        yield at, at + len(data[at:end].rstrip(b"\r\n"))
        at = end


def _scan(data: bytes, start: int, stop: int) -> tuple[Command, ...]:
    try:
        return scan_shell(data, start, stop).commands
    except Unparsable:
        return ()


def _variable(data: bytes, found: re.Match[bytes], stop: int) -> Command:
    """Parse a variable. Return its whole value as one word, and the words in the value."""
    items = [word for command in _scan(data, found.end(), stop) for word in command.words]
    raw = data[found.end() : stop].decode("latin-1")
    text = items[0].text if len(items) == 1 and items[0].raw == raw.rstrip() else None
    value = items[0] if text is not None else Word(found.end(), stop, raw, None)
    return Command((Assignment(found[1].decode("latin-1"), value, tuple(items)),))
