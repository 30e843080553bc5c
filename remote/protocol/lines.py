"""Collapse redrawn lines of output: a progress bar becomes its last state, as on a terminal."""

from __future__ import annotations

import re
from typing import Iterator, List

MAX_PENDING = 2**20
_ENDS = re.compile(r"\r*\n|\r+")


class LineCollapser:
    """Leaves every line that carriage returns redrew in its last state, and holds back one that may still be redrawn.

    A shorter line replaces a longer one completely; leftover characters of an earlier state are dropped.
    """

    def __init__(self) -> None:
        self._shown = ""
        self._pending = ""

    def feed(self, text: str, *, final: bool = False) -> Iterator[str]:
        """Return the finished lines, each with its newline; `final` also returns the rest."""
        return iter(self._lines(text, final))

    def _lines(self, text: str, final: bool) -> List[str]:
        lines: List[str] = []
        self._pending += text
        at = 0
        for end in _ENDS.finditer(self._pending):
            if end.end() == len(self._pending) and not final and not end.group().endswith("\n"):
                break
            self._shown = self._pending[at : end.start()] or self._shown
            at = end.end()
            if end.group().endswith("\n"):
                lines.append(self._shown + "\n")
                self._shown = ""
        self._pending = self._pending[at:]
        if final or len(self._pending) > MAX_PENDING:
            rest = self._pending or self._shown
            self._shown = self._pending = ""
            if rest:
                lines.append(rest)
        return lines
