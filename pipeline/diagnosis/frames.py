"""Find the user's own code in a traceback: the innermost frame outside Python and installed packages. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pipeline.diagnosis.lines import Line
from remote.protocol.dataclass import dataclass

TRACEBACK = "Traceback (most recent call last):"
FRAME = re.compile(r'^\s*File "([^"]{1,1000})", line (\d{1,9})(?:, in (.{1,200}))?$')
LIBRARY = re.compile(r"^<|(?:^|/)(?:site-packages|dist-packages|lib(?:64)?/python3[\d.]*)/")
ON_HOST = re.compile(r"^.*/projects/[^/]+-[0-9a-f]{8}/(?:tree|runs/[^/]+/code|scratch/[^/]+/(?:run/code|[^/]+))/")
"""The folders on the host in which a project runs; see remote/protocol/layout.py."""
SYNTAX_ERROR = re.compile(r"(?:SyntaxError|IndentationError|TabError): ")
LONGEST_TRACEBACK = 20_000


@dataclass(frozen=True)
class Frame:
    """One entry of a traceback: the file, the line number, the function and the line of code ("" if not shown)."""

    path: str
    line: int
    function: str
    code: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f" in {self.function}" if self.function else "")


def own_frame(lines: Sequence[Line], at: int) -> Frame | None:
    """Return the innermost frame of the user's own code in the traceback that ends with the line at `at`.

    Return None if no traceback ends there, or if all its frames are in Python or in installed packages.
    """
    own = None
    for position in _traceback_of(lines, at):
        match = FRAME.match(lines[position].text)
        if match and not LIBRARY.search(match[1]):
            own = Frame(ON_HOST.sub("", match[1]), int(match[2]), match[3] or "", _code_after(lines, position))
    return own


def _traceback_of(lines: Sequence[Line], at: int) -> Iterator[int]:
    """Yield the positions of the traceback's lines in order. The traceback ends at `at`; other ranks are skipped.

    The traceback of a syntax error in the script itself has no first line, and one entry, without a function.
    """
    rank = lines[at].rank
    found: list[int] = []
    for position in range(at - 1, max(-1, at - LONGEST_TRACEBACK), -1):
        line = lines[position]
        if line.rank != rank:
            continue
        if line.text.strip().removeprefix("Original ") == TRACEBACK:
            yield from reversed(found)
            return
        if line.text and not line.text.startswith(" "):
            break
        found.append(position)
    if SYNTAX_ERROR.match(lines[at].text):
        entries = ((each, FRAME.match(lines[each].text)) for each in found)
        yield from [each for each, entry in entries if entry and not entry[3]][:1]


def _code_after(lines: Sequence[Line], position: int) -> str:
    following = (line for line in lines[position + 1 : position + 50] if line.rank == lines[position].rank)
    line = next(following, None)
    return line.text.strip() if line and line.text.startswith("    ") and not FRAME.match(line.text) else ""
