"""Find the user's own code in a traceback: the innermost frame outside Python and installed packages. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from pipeline.diagnosis.lines import Line
from remote.protocol.dataclass import dataclass

TRACEBACK = "Traceback (most recent call last):"
ORIGINAL = "Original "
"""The prefix of the traceback of a worker process, below the traceback of the process that waited for it."""
CHAINED = re.compile(
    r"^(?:During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception):$"
)
FRAME = re.compile(r'^\s*File "([^"]{1,1000})", line (\d{1,9})(?:, in (.{1,200}))?$')
LIBRARY = re.compile(
    r"^<|(?:^|[/\\])(?:site-packages|dist-packages|[Ll]ib(?:64)?[/\\]python3[\d.]*)[/\\]"
    r"|(?:^|/)(?:halfstep_hooks|payload/[0-9a-f]{64}\.pyz)/"
)
"""Files of Python, of installed packages and of halfstep itself."""
PROGRAM = re.compile(r"(?:^|/)bin/[^/.]{1,100}$")
"""The script of an installed program such as torchrun, if its line of code is `sys.exit(main())`."""
RAISED = re.compile(r"^[A-Za-z_][\w.]*:(?:\s|$)")
ON_HOST = re.compile(r"^.*/projects/[^/]+-[0-9a-f]{8}/(?:tree|runs/[^/]+/code|scratch/[^/]+/(?:run/code|[^/]+))/")
"""The folders on the host in which a project runs; see remote/protocol/layout.py."""
IN_PACKAGES = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\]")
SYNTAX_ERROR = re.compile(r"(?:SyntaxError|IndentationError|TabError): ")
LONGEST_TRACEBACK = 20_000
LONGEST_MESSAGE = 50
MOST_CHAINED = 10


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
    """Return the innermost frame of the user's own code in the traceback of the exception whose message has line `at`.

    If this traceback has no such frame, the traceback of the process that waited for this one is used, or that of the
    exception that followed while this one was handled. Return None if there is no traceback with such a frame.
    """
    end: int | None = _first_of_message(lines, at)
    for _ in range(MOST_CHAINED):
        if end is None:
            return None
        outer: int | None = end
        while outer is not None:
            start, entries = _traceback_of(lines, outer)
            if own := _innermost(lines, entries):
                return own
            outer = _before_original(lines, start) if entries else None
        end = _following_exception(lines, end)
    return None


def calling_frame(lines: Sequence[Line], at: int, library: str) -> Frame | None:
    """Return the frame that called the installed library, in the traceback of the exception or of one that followed.

    `library` is the folder of the package. Return None if no such traceback contains a call of it.
    """
    inside = re.compile(rf"(?:site|dist)-packages[/\\]{library}[/\\]")
    end: int | None = _first_of_message(lines, at)
    for _ in range(MOST_CHAINED):
        if end is None:
            return None
        found = [(each, match) for each in _traceback_of(lines, end)[1] if (match := FRAME.match(lines[each].text))]
        callers = [
            before
            for before, (_, match) in pairwise(found)
            if inside.search(match[1]) and not inside.search(before[1][1])
        ]
        if callers:
            position, match = callers[-1]
            path = ON_HOST.sub("", IN_PACKAGES.sub("", match[1]))
            return Frame(path, int(match[2]), match[3] or "", _code_after(lines, position))
        end = _following_exception(lines, end)
    return None


def _innermost(lines: Sequence[Line], positions: Sequence[int]) -> Frame | None:
    own = None
    for position in positions:
        match = FRAME.match(lines[position].text)
        if match and not LIBRARY.search(match[1]):
            code = _code_after(lines, position)
            if not (PROGRAM.search(match[1]) and code.startswith("sys.exit(")):
                own = Frame(ON_HOST.sub("", match[1]), int(match[2]), match[3] or "", code)
    return own


def _first_of_message(lines: Sequence[Line], at: int) -> int:
    """Return the position of the line with the exception's class, for an indented line of a longer message."""
    if not lines[at].text.startswith(("\t", " ")):
        return at
    before = (n for n in range(at - 1, max(-1, at - LONGEST_MESSAGE), -1) if lines[n].rank == lines[at].rank)
    first = next((n for n in before if lines[n].text and not lines[n].text.startswith(("\t", " "))), at)
    return first if RAISED.match(lines[first].text) else at


def _following_exception(lines: Sequence[Line], at: int) -> int | None:
    """Return the end of the next traceback if it is of an exception that followed from this one."""
    rank, is_chained = lines[at].rank, False
    for position in range(at + 1, min(len(lines), at + LONGEST_TRACEBACK)):
        text = lines[position].text
        if lines[position].rank != rank or not text:
            continue
        if is_chained and text != TRACEBACK and not text.startswith(" "):
            return position
        is_chained = is_chained or CHAINED.match(text) is not None
        if not is_chained and (text == TRACEBACK or position > at + LONGEST_MESSAGE):
            return None
    return None


def _before_original(lines: Sequence[Line], start: int) -> int | None:
    """Return the position of `RuntimeError: Caught KeyError in DataLoader worker`, above a worker's traceback."""
    if not lines[start].text.startswith(ORIGINAL):
        return None
    return next((n for n in range(start - 1, max(-1, start - 50), -1) if lines[n].rank == lines[start].rank), None)


def _traceback_of(lines: Sequence[Line], at: int) -> tuple[int, list[int]]:
    """Return the first position of the traceback that ends at `at`, and its lines in order. Other ranks are skipped.

    The traceback of a syntax error in the script itself has no first line, and one entry, without a function.
    """
    rank = lines[at].rank
    found: list[int] = []
    for position in range(at - 1, max(-1, at - LONGEST_TRACEBACK), -1):
        line = lines[position]
        if line.rank != rank:
            continue
        if line.text.strip().removeprefix(ORIGINAL) == TRACEBACK:
            return position, found[::-1]
        if line.text and not line.text.startswith(" "):
            break
        found.append(position)
    if SYNTAX_ERROR.match(lines[at].text):
        entries = ((each, FRAME.match(lines[each].text)) for each in found)
        return at, [each for each, entry in entries if entry and not entry[3]][:1]
    return at, []


def _code_after(lines: Sequence[Line], position: int) -> str:
    following = (line for line in lines[position + 1 : position + 50] if line.rank == lines[position].rank)
    line = next(following, None)
    return line.text.strip() if line and line.text.startswith("    ") and not FRAME.match(line.text) else ""
