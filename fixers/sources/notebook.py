"""The code cells of a Jupyter notebook as one Python module, with the JSON position of every character."""

from __future__ import annotations

import json
import re
from bisect import bisect_right

from fixers.sources.json_nodes import JsonString, json_string, read_json
from fixers.sources.nodes import Mapping, Sequence
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass

LINE_MAGIC = re.compile(r"^([ \t]*+)(?:[%!?]|[\w.\[\], ]++=[ \t]*[!%])|^[ \t]*[\w.]+\?{1,2}[ \t]*$")
LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
CELL_MAGIC = re.compile(r"\s*%%(\w+)")
PYTHON_CELL_MAGICS = ("time", "timeit", "capture", "prun")


@dataclass(frozen=True)
class Cell:
    """One code cell: its source, and the JSON strings that contain it."""

    index: int
    strings: tuple[JsonString, ...]
    listed: bool

    @property
    def source(self) -> str:
        return "".join(string.value for string in self.strings)


class NotebookMap:
    """Maps UTF-8 offsets of the joined module to the notebook.

    The newlines inserted between cells have no position in the notebook.
    """

    def __init__(self, data: bytes, cells: tuple[Cell, ...]) -> None:
        self._data = data
        self._starts: list[int] = []
        self._strings: list[tuple[JsonString, Cell, int]] = []
        self.inserted_newlines: set[int] = set()
        at = 0
        for cell in cells:
            for position, string in enumerate(cell.strings):
                self._starts.append(at)
                self._strings.append((string, cell, position))
                at += string.utf8_length
            self.inserted_newlines.add(at)
            at += 1

    def file_range(self, start: int, end: int) -> tuple[int, int]:
        """Return the byte range in the notebook. Raises Unparsable if the range is not inside one JSON string."""
        string, _, _, offset = self._piece(start)
        if offset + end - start > string.utf8_length:
            raise Unparsable("the text to change spans several JSON strings")
        return string.file_offset(offset), string.file_offset(offset + end - start)

    def encode(self, text: str, at: int) -> bytes:
        """Return `text` encoded for insertion at `at`.

        Complete lines at the start of a string become separate JSON strings.
        """
        _, cell, position, offset = self._piece(at)
        ascii_only = self._data.isascii()
        if offset or not text.endswith("\n") or not cell.listed:
            return encode_json(text, ascii_only=ascii_only)
        between = self._between(cell, position)
        return b"".join(
            encode_json(line, ascii_only=ascii_only) + b'"' + between + b'"' for line in text.splitlines(keepends=True)
        )

    def _piece(self, at: int) -> tuple[JsonString, Cell, int, int]:
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            raise Unparsable("the notebook has no code at that position")
        return (*self._strings[index], at - self._starts[index])

    def _between(self, cell: Cell, position: int) -> bytes:
        """Return the bytes that separate two strings of the cell."""
        if len(cell.strings) > 1:
            first, second = (position - 1, position) if position else (0, 1)
            return self._data[cell.strings[first].end + 1 : cell.strings[second].start - 1]
        quote = cell.strings[position].start - 1
        blank = self._data[:quote]
        return b"," + blank[len(blank.rstrip()) :]


def code_cells(data: bytes) -> tuple[Cell, ...]:
    """Return the notebook's code cells. Raises Unparsable if the bytes are not a notebook."""
    try:
        notebook = read_json(data, strict=True)
    except Unparsable as error:
        raise Unparsable(f"not JSON: {error.message}", error.line) from None
    cells = notebook.get("cells") if isinstance(notebook, Mapping) else None
    if not isinstance(cells, Sequence):
        raise Unparsable("a notebook without cells (nbformat below 4 is not read)")
    found: list[Cell] = []
    for index, cell in enumerate(cells.items):
        kind = json_string(data, cell.get("cell_type")) if isinstance(cell, Mapping) else None
        if isinstance(cell, Mapping) and kind is not None and kind.value == "code":
            source = cell.get("source")
            strings = source.items if isinstance(source, Sequence) else (source,)
            kept = tuple(string for each in strings if (string := json_string(data, each)) is not None)
            found.append(Cell(index, kept, isinstance(source, Sequence)))
    return tuple(found)


def encode_json(text: str, *, ascii_only: bool) -> bytes:
    """Return the text escaped for a JSON string, without the quotes."""
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass")


def masked(source: str) -> str:
    """Return the cell with IPython syntax replaced with no-op expressions of the same length."""
    magic = CELL_MAGIC.match(source)
    if magic is not None and magic[1] not in PYTHON_CELL_MAGICS:
        return "".join(_blank(line) for line in LINES.findall(source))
    lines: list[str] = []
    continued = False
    for line in LINES.findall(source):
        if continued:
            lines.append(_blank(line))
        elif LINE_MAGIC.match(line):
            lines.append(_no_op(line, indented=any(map(str.strip, lines))))
            continued = True
        else:
            lines.append(line)
        continued = continued and line.rstrip("\r\n").endswith("\\")
    return "".join(lines)


def _no_op(line: str, *, indented: bool) -> str:
    """Return a no-op expression with as many bytes as the line. The first line of a cell is not indented."""
    body = line.rstrip("\r\n")
    indentation = body[: len(body) - len(body.lstrip())] if indented else ""
    rest = len(body.encode()) - len(indentation.encode())
    return indentation + "0".ljust(rest) + line[len(body) :]


def _blank(line: str) -> str:
    body = line.rstrip("\r\n")
    return " " * len(body.encode()) + line[len(body) :]
