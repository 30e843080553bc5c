"""Shell commands of a notebook: lines that begin with `!`, and `%%bash` cells."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fixers.sources.json_nodes import JsonString
from fixers.sources.notebook import LINES, Cell, code_cells
from fixers.sources.shell_words import scan_shell
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Command, Script

SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|script\s+(?:ba)?sh)\b")
SHELL_LINE = re.compile(r"\s*(?:\w+\s*=\s*)?!{1,2}")
MAGIC = re.compile(r"\s*%%")


def is_notebook(path: str) -> bool:
    return path.lower().endswith(".ipynb")


def commands_in_notebook(data: bytes) -> tuple[Script, tuple[int, ...]]:
    """Return the commands, and the offsets of lines that do not parse or contain JSON escapes.

    Raises Unparsable if the bytes are not a notebook.
    """
    commands: list[Command] = []
    unparsed: list[int] = []
    for start, end in (line for cell in code_cells(data) for line in _shell_lines(cell)):
        try:
            if b"\\" in data[start:end]:
                raise Unparsable("a JSON escape")
            commands += scan_shell(data, start, end).commands
        except Unparsable:
            unparsed.append(start)
    return Script(tuple(commands)), tuple(unparsed)


def _shell_lines(cell: Cell) -> Iterator[tuple[int, int]]:
    whole = SHELL_CELL.match(cell.source) is not None
    for string in cell.strings:
        for line in LINES.finditer(string.value):
            text = line[0].rstrip("\r\n")
            mark = SHELL_LINE.match(text)
            if mark is None and (not whole or MAGIC.match(text)):
                continue
            begin = line.start() + (mark.end() if mark and not whole else 0)
            yield _file_offset(string, begin), _file_offset(string, line.start() + len(text))


def _file_offset(string: JsonString, at: int) -> int:
    return string.file_offset(len(string.value[:at].encode("utf-8", "surrogatepass")))
