"""Extract the Python text of a module, a notebook or a shell script's heredocs, with positions in the file."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import lru_cache

from fixers.sources.heredocs import HeredocMap, python_heredocs
from fixers.sources.lines import too_long_line
from fixers.sources.notebook import NotebookMap, code_cells, masked
from fixers.sources.shells import is_shell
from fixers.sources.splice import line_of
from fixers.sources.syntax import Oversized, parse_python
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass

BOM = b"\xef\xbb\xbf"
LINE_END = re.compile(rb"\r\n|\r|\n")
COMMENT = "#" * 79 + "\n"


@dataclass(frozen=True)
class MappedText:
    """UTF-8 text for the parser, and the mapping of its positions to the file's bytes.

    `file_range(start, end)` returns the range in the file. `encode(text, at)` returns the bytes for `text` at a
    position.
    `inserted_newlines`: offsets of the newlines between cells, which the file does not contain.
    `unread`: the errors of cells that do not parse.
    """

    text: bytes
    file_range: Callable[[int, int], tuple[int, int]]
    encode: Callable[[str, int], bytes]
    inserted_newlines: AbstractSet[int] = frozenset()
    unread: tuple[Unparsable, ...] = ()


def map_python(path: str, data: bytes) -> MappedText:
    """Return the Python text in the file. Raises Unparsable with the line."""
    if is_shell(path):
        return _map_heredocs(data)
    return _map_notebook(data) if path.endswith(".ipynb") else _map_module(data)


def parse_module(text: bytes) -> ast.Module:
    """Parse UTF-8 text. Raises Unparsable with the line, for any error of the parser."""
    try:
        return parse_python(text.decode("utf-8"))
    except Oversized as error:
        raise Unparsable(error.msg, error.lineno or 1) from None
    except SyntaxError as error:
        raise Unparsable(f"not Python: {error.msg}", error.lineno or 1) from None
    except ValueError as error:
        raise Unparsable(f"not Python: {error}") from None


def _map_module(data: bytes) -> MappedText:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise Unparsable(f"not Python: {error.msg}") from None
    offset = len(BOM) if data.startswith(BOM) else 0
    if encoding in ("utf-8", "utf-8-sig"):
        _require_utf8(data)
        return MappedText(
            data[offset:], lambda start, end: (start + offset, end + offset), lambda text, at: text.encode()
        )
    return _place_encoded(data, encoding)


def _require_utf8(data: bytes) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = 1 + len(LINE_END.findall(data[: error.start]))
        raise Unparsable(f"not UTF-8 and no other encoding is declared: {error.reason}", line) from None


def _place_encoded(data: bytes, encoding: str) -> MappedText:
    try:
        decoded = data.decode(encoding)
        round_trips = decoded.encode(encoding) == data
        text = decoded.encode("utf-8")
    except (UnicodeError, LookupError, ValueError) as error:
        raise Unparsable(f"not valid {encoding}, the declared encoding: {error}") from None
    if not round_trips:
        raise Unparsable(f"{encoding} text that would change when decoded and encoded again")

    def file_range(start: int, end: int) -> tuple[int, int]:
        first = len(text[:start].decode("utf-8").encode(encoding))
        return first, first + len(text[start:end].decode("utf-8").encode(encoding))

    return MappedText(text, file_range, lambda words, at: words.encode(encoding))


def _map_heredocs(data: bytes) -> MappedText:
    """Join the Python heredocs of a script."""
    ranges = tuple(python_heredocs(data))
    text = b"".join(data[start:stop] for start, stop in ranges)
    return MappedText(text, HeredocMap(ranges).file_range, lambda words, at: words.encode())


@lru_cache(maxsize=1)
def _map_notebook(data: bytes) -> MappedText:
    """Join the notebook's code cells. Cells that do not parse are skipped and listed in `unread`."""
    cells = code_cells(data)
    texts: list[str] = []
    unread: list[Unparsable] = []
    for cell in cells:
        try:
            texts.append(_readable(cell.source))
        except Unparsable as error:
            texts.append(_comments(len(cell.source.encode("utf-8", "surrogatepass"))))
            string = cell.strings[min(error.line, len(cell.strings)) - 1]
            line = line_of(data, string.start)
            unread.append(Unparsable(f"cell {cell.index} is {error.message}", line))
    offsets = NotebookMap(data, cells)
    text = "".join(f"{text}\n" for text in texts).encode()
    return MappedText(text, offsets.file_range, offsets.encode, frozenset(offsets.inserted_newlines), tuple(unread))


def _comments(size: int) -> str:
    """Return comments of this size, whose lines are short."""
    return (COMMENT * (size // len(COMMENT) + 1))[:size]


def _readable(cell: str) -> str:
    """Return the cell as Python, with IPython syntax masked if needed. Raises Unparsable."""
    line, longest = too_long_line(cell.encode("utf-8", "surrogatepass"))
    if line:
        raise Unparsable(f"not Python: a line of {longest} bytes is too long", line)
    try:
        parse_module(cell.encode("utf-8", "surrogatepass"))
    except Unparsable:
        text = masked(cell)
        parse_module(text.encode("utf-8", "surrogatepass"))
        return text
    return cell
