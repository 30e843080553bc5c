"""Find Python heredocs in a shell script. The script runs a heredoc with an interpreter or writes it to a module."""

from __future__ import annotations

import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator

from fixers.sources.shell_words import PYTHON, scan_shell
from fixers.sources.syntax import parse_python
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Heredoc
from remote.protocol.dataclass import dataclass

WRITERS = frozenset({"cat", "tee"})
EXPANDS = re.compile(rb"[$`\\]")


def is_python_heredoc(data: bytes, heredoc: Heredoc) -> bool:
    """Return True if the heredoc is Python without shell expansions."""
    written = heredoc.program in WRITERS and heredoc.target.endswith(".py")
    if not written and not PYTHON.fullmatch(heredoc.program):
        return False
    if not heredoc.literal and EXPANDS.search(data, heredoc.start, heredoc.stop):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse_python(data[heredoc.start : heredoc.stop].decode("utf-8"))
    except (SyntaxError, ValueError):
        return False
    return True


def python_heredocs(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the Python heredocs of a script. Yield nothing if the script does not parse."""
    if b"<<" not in data:
        return
    try:
        heredocs = scan_shell(data).heredocs
    except Unparsable:
        return
    yield from ((each.start, each.stop) for each in heredocs if is_python_heredoc(data, each))


@dataclass(frozen=True)
class HeredocMap:
    """Maps positions in the joined text of several byte ranges to the file."""

    ranges: tuple[tuple[int, int], ...]

    def file_range(self, start: int, end: int) -> tuple[int, int]:
        """Return the byte range in the file. Raises Unparsable if the range is not inside one heredoc."""
        starts = [0]
        for first, last in self.ranges:
            starts.append(starts[-1] + last - first)
        index = min(bisect_right(starts, start) - 1, len(self.ranges) - 1)
        if index < 0 or end > starts[index + 1]:
            raise Unparsable("the text to change spans several heredocs")
        offset = self.ranges[index][0] - starts[index]
        return start + offset, end + offset
