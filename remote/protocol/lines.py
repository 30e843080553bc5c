"""Lines of output as a terminal would have left them: progress bars that redraw themselves become their last state."""

from __future__ import annotations

import re
from typing import Iterator, List

MAX_PENDING = 2**20
_ENDS = re.compile(r"\r*\n|\r+")


def collapse_progress(text: str) -> str:
    """`text` with every line that was redrawn by carriage returns shown as it was last.

    A shorter redrawing hides a longer one wholly: what a bar leaves of an earlier state is of no use to a reader.
    """
    return "".join(LineCollapser().feed(text, final=True))


class LineCollapser:
    """The same for output that comes in pieces: whole lines out, a line that is still being redrawn held back."""

    def __init__(self) -> None:
        self._shown = ""
        self._pending = ""

    def feed(self, text: str, *, final: bool = False) -> Iterator[str]:
        """The lines that are finished now, each with its newline; `final` gives what is left as well."""
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
