"""Parse a log into lines without colours, timestamps, leading progress bars and rank prefixes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

RANK = re.compile(r"^\[(?:rank|default|Rank )\s*(\d+)\]:?\s?|^\[(?:[\w.-]+):(\d+)\]:\s?|^(\d+):\s(?=\S)")
STAMP = re.compile(r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?(?: |$)")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
BAR = re.compile(
    r"^[^\[]{0,300}(?:\d%\|[^|\[]{0,300}\|[^\[]{0,60}|\dit )\[[^\]]{0,200}\]\s*"
    r"(?=Traceback \(most recent|(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)\b)"
)
"""A progress bar followed by an error on the same line, because progress bars do not end with a newline."""
MOST_PREFIXES = 3
"""The maximum number of prefixes in a line, as in `[default0]:[rank0]: 2024-05-01 12:00:00 `."""


@dataclass(frozen=True)
class Line:
    """One line of a log: its number from 1, the rank in its prefix if any, its text without prefixes."""

    number: int
    rank: int | None
    text: str


def parse_log(text: str, first: int = 1) -> list[Line]:
    """Parse every line; text that a progress bar overwrote becomes a line of its own.

    `first` is the line number of the text's first line in the log.
    """
    lines = []
    for number, raw in enumerate(text.split("\n"), first):
        for shown in ESCAPES.sub("", raw).split("\r"):
            lines.append(_parse_line(number, shown))
    return lines


def _parse_line(number: int, shown: str) -> Line:
    rank = None
    for _ in range(MOST_PREFIXES if shown[:1] == "[" or shown[:1].isdigit() else 0):
        match = STAMP.match(shown) or RANK.match(shown)
        if match is None:
            break
        if rank is None and match.re is RANK:
            rank = next((int(group) for group in match.groups() if group), 0)
        shown = shown[match.end() :]
    if "]" in shown and (match := BAR.match(shown)):
        shown = shown[match.end() :]
    return Line(number, rank, shown)
