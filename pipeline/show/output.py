"""Decode a trainer's output for the screen: bytes to lines.

For a redrawn progress bar, only the last state is shown. On a terminal, long lines are wrapped between words.
"""

from __future__ import annotations

import codecs
import sys
from collections import deque
from collections.abc import Iterator

from pipeline.show.console import open_console
from pipeline.show.wrapping import wrap_words
from remote.protocol.lines import LineCollapser

MOST_LINES = 200_000
MOST_CHARACTERS = 16 * 2**20


def terminal_width() -> int | None:
    """Return the width of the terminal on stdout, or None if stdout is no terminal."""
    return open_console().width if sys.stdout.isatty() else None


class OutputLines:
    """Splits a byte stream into lines. A line that is still being redrawn is returned only once it is complete.

    Lines of more than `width` columns are wrapped between words. A longer word is left to the terminal.
    """

    def __init__(self, width: int | None = None) -> None:
        self._width = width
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._collapser = LineCollapser()

    def feed(self, data: bytes) -> Iterator[str]:
        """Add `data` to the stream, and yield the lines that are complete."""
        return map(self._wrapped, self._collapser.feed(self._decoder.decode(data)))

    def end(self) -> Iterator[str]:
        """Yield the remaining lines. The last line gets a newline, so that the shell prompt starts on a new line."""
        for line in self._collapser.feed(self._decoder.decode(b"", final=True), final=True):
            yield self._wrapped(line if line.endswith("\n") else f"{line}\n")

    def _wrapped(self, line: str) -> str:
        if self._width is None or len(line) <= self._width:
            return line
        return "\n".join([*wrap_words(line.rstrip("\n"), self._width), ""])


class LastLines:
    """Keeps the last lines of an output of any length: at most MOST_LINES lines and MOST_CHARACTERS characters."""

    def __init__(self) -> None:
        self.omitted = 0
        self._lines: deque[str] = deque()
        self._characters = 0

    def add(self, line: str) -> None:
        self._lines.append(line)
        self._characters += len(line)
        while len(self._lines) > MOST_LINES or self._characters > MOST_CHARACTERS:
            self._characters -= len(self._lines.popleft())
            self.omitted += 1

    def lines(self) -> list[str]:
        """Return the kept lines without their newlines."""
        return [line.rstrip("\n") for line in self._lines]
