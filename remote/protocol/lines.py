"""Reduce redrawn lines of output to the last state that a terminal would show, for example of a progress bar."""

from __future__ import annotations

import re
from typing import Iterator, List

# The maximum length of a row. Each backspace copies the row, so that long rows would be slow.
MAX_ROW = 2**13
MOST_ROWS_UP = 50
# The largest column to which a control sequence may move the cursor. The row is filled with spaces up to the cursor, so
# that without a limit a few bytes of output could use a lot of memory. Terminals are narrower.
MOST_COLUMNS = 500
MAX_FEED = 2**12
# Line ends, backspaces, and the control sequences that move the cursor, erase, or change colours (ECMA-48).
_CONTROL = re.compile(r"\r*\n|\r+|\x08+|\x1b\[([0-9;?]{0,32})([ABCDEFGJKmhl])")
_REDRAWS = re.compile(r"[\r\x08\x1b]")
_UNFINISHED = re.compile(r"\x1b(\[[0-9;?]{0,32})?\Z")


class LineCollapser:
    """Returns each line in its last state. Lines that may still be redrawn are buffered.

    The buffer contains the line with the cursor and some lines above it, because the output may move the cursor up
    again. The number of these lines is the longest upward move so far, at most MOST_ROWS_UP. The buffer uses at most a
    few megabytes. Text after a carriage return replaces the whole line, even if the new text is shorter.
    """

    def __init__(self) -> None:
        self._unfinished = ""
        self._reach = self._returned = 0
        self._clear()

    def _clear(self) -> None:
        self._rows: List[str] = [""]
        self._row = self._column = 0
        self._replaces = False

    def feed(self, text: str, *, final: bool = False) -> Iterator[str]:
        """Yield the finished lines, each with its newline. If `final` is True, yield the unfinished lines too."""
        for at in range(0, max(1, len(text)), MAX_FEED):
            yield from self._lines(text[at : at + MAX_FEED], final and at + MAX_FEED >= len(text))

    def _lines(self, text: str, final: bool) -> List[str]:
        text, self._unfinished = self._unfinished + text, ""
        cut = None if final else _UNFINISHED.search(text)
        if cut is not None:
            text, self._unfinished = text[: cut.start()], text[cut.start() :]
        if not _REDRAWS.search(text) and len(self._rows) == 1 and self._column == len(self._rows[0]):
            *plain, last = (self._rows[0] + text).split("\n")
            self._rows, self._column, self._returned = [last], len(last), self._returned + len(plain)
            return [f"{line}\n" for line in plain] + (self._unfinished_rows() if final else self._finished())
        at = 0
        for control in _CONTROL.finditer(text):
            self._write(text[at : control.start()])
            self._apply_control(control.group(), control.group(1) or "", control.group(2) or "")
            at = control.end()
        self._write(text[at:])
        return self._unfinished_rows() if final else self._finished()

    def _finished(self) -> List[str]:
        done = self._rows[: max(0, self._row - self._reach)]
        del self._rows[: len(done)]
        self._row -= len(done)
        self._returned += len(done)
        lines = [f"{row}\n" for row in done]
        if len(self._rows[self._row]) > MAX_ROW:
            lines += [f"{row}\n" for row in self._rows[: self._row]] + [self._rows[self._row]]
            self._clear()
        return lines

    def _unfinished_rows(self) -> List[str]:
        rows = len(self._rows)
        while len(self._rows) > self._row + 1 and not self._rows[-1].strip():
            self._rows.pop()
        if len(self._rows) < rows:
            self._rows.append("")
        *lines, last = self._rows
        self._clear()
        return [f"{row}\n" for row in lines] + ([last] if last else [])

    def _write(self, text: str) -> None:
        if not text:
            return
        row = "" if self._replaces else self._rows[self._row]
        self._rows[self._row] = row[: self._column].ljust(self._column) + text + row[self._column + len(text) :]
        self._column += len(text)
        self._replaces = False

    def _apply_control(self, control: str, parameter: str, kind: str) -> None:
        amount = int(parameter) if parameter.isdecimal() else 0
        if kind:
            self._apply_sequence(kind, amount)
        elif control.endswith("\n"):
            self._down(1)
            self._return()
        elif control.endswith("\r"):
            self._return()
        else:
            self._move_to(self._column - len(control))

    def _apply_sequence(self, kind: str, amount: int) -> None:
        if kind in "AF":
            self._up(amount or 1)
        elif kind in "BE":
            self._down(amount or 1)
        elif kind in "CD":
            self._move_to(self._column + (amount or 1) * (1 if kind == "C" else -1))
        elif kind in "JK":
            self._erase(kind, amount)
        if kind in "EF":
            self._return()
        elif kind == "G":
            self._move_to(amount - 1)

    def _return(self) -> None:
        self._column, self._replaces = 0, True

    def _move_to(self, column: int) -> None:
        self._column, self._replaces = min(max(0, column), max(MOST_COLUMNS, len(self._rows[self._row]))), False

    def _up(self, rows: int) -> None:
        below = len(self._rows) - 1 - self._row
        rows = max(0, min(rows, MOST_ROWS_UP - below, self._row + self._returned))
        again = max(0, rows - self._row)  # A redrawn line is returned again.
        self._rows[:0] = [""] * again
        self._row += again - rows
        self._column = min(self._column, max(MOST_COLUMNS, len(self._rows[self._row])))
        self._reach = max(self._reach, below + rows)

    def _down(self, rows: int) -> None:
        self._row += min(rows, MOST_ROWS_UP)
        self._rows += [""] * (self._row + 1 - len(self._rows))
        self._column = min(self._column, max(MOST_COLUMNS, len(self._rows[self._row])))
        self._replaces = False

    def _erase(self, kind: str, amount: int) -> None:
        row = self._rows[self._row]
        self._rows[self._row] = (row[: self._column], " " * self._column + row[self._column :], "")[min(amount, 2)]
        if kind == "J" and amount != 1:
            del self._rows[self._row + 1 :]
