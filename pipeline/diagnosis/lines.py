"""Parse a log into lines without colours, timestamps, leading progress bars and rank prefixes. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from remote.protocol.dataclass import dataclass

RANK = re.compile(
    r"^\[(?:rank|default|trainer|Rank )\s*(\d{1,9})\]:?\s?|^\[(?:[\w.-]+):(\d{1,9})\]:\s?"
    r"|^ {0,3}(\d{1,9}):\s(?=\S| {2})|^\[\d{1,9},(\d{1,9})\]<std(?:out|err)>:(?:\s(?!\s))?"
)
"""The rank in a prefix of torchrun, of pdsh, of `srun --label`, or of `mpirun --tag-output`."""
SOURCE = re.compile(r"^std(?:out|err) [FP] |^\(\w{1,80} pid=\d+(?:, ip=[\w.:]{1,60})?\)\s?|^[\w.-]{1,80}-\d+\s+\|\s?")
"""The name of a process in a prefix of a Kubernetes log, of Ray, or of Docker Compose."""
STAMP = re.compile(r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?(?: |$|(?=\[))")
LABEL = re.compile(r"^([A-Za-z][\w.-]{0,79}: )Traceback \(most recent call last\):\r?$", re.MULTILINE)
"""The name of a host at the start of each line, as pdsh writes it. The name is recognised only before a traceback."""
PREFIX = re.compile(r"[\[\d(]| {1,3}\d|std|[\w.-]{1,80}-\d+\s+\|")
"""A fast check for lines that may have a prefix."""
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|\x1b[=>78]")
BAR = re.compile(
    r"^[^\[]{0,300}(?:\d%\|[^|\[]{0,300}\|[^\[]{0,60}|\dit )\[[^\]]{0,200}\]\s*"
    r"(?=Traceback \(most recent|(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)\b)"
)
"""A progress bar followed by an error on the same line, because progress bars do not end with a newline."""
MOST_PREFIXES = 4
"""The maximum number of prefixes in a line, as in `trainer-1 | [default0]:[rank0]: 2024-05-01 12:00:00 `."""
LONGEST_LINE = 4000
"""Longer lines are cut to this length, because the time of some searches grows with the square of the length."""
MOST_LINES = 500_000
"""The number of lines that are kept of a log. Each line takes a quarter of a kilobyte of memory."""
CHUNK = 65536
BOX_END = "\u2570\u2500"
"""The start of the last line of a traceback box that rich printed. The message below is wrapped at the box's width."""


@dataclass(frozen=True)
class Line:
    """One line of a log.

    `number` counts from 1; `rank` is None if the line has no rank prefix; `text` has no prefixes.
    """

    number: int
    rank: int | None
    text: str


def parse_log(text: str, first: int = 1) -> list[Line]:
    """Parse the last MOST_LINES lines.

    Text that a progress bar overwrote becomes a separate line. `first` is the line number of the text's first line in
    the log.
    """
    lines = []
    text, first = _end_of(text.removeprefix("\ufeff"), first)
    labels = frozenset(LABEL.findall(text))
    for number, raw in enumerate(text.split("\n"), first):
        for shown in without_escapes(raw).split("\r"):
            lines.append(_parse_line(number, shown, labels))
    return _join_wrapped(lines) if BOX_END in text else lines


def without_escapes(text: str) -> str:
    """Return the text without colours, titles and other escape sequences of terminals."""
    return ESCAPES.sub("", text)


def _end_of(text: str, first: int) -> tuple[str, int]:
    """Return about the last MOST_LINES lines of the text, and the number of the first of them."""
    at, breaks = len(text), 0
    while at and breaks < MOST_LINES:
        start = max(0, at - CHUNK)
        breaks += text.count("\n", start, at) + text.count("\r", start, at)
        at = start
    return text[at:], first + text.count("\n", 0, at)


def following_line(lines: Sequence[Line], at: int) -> str:
    """Return the text of the next line of the same rank, or "" if none of the next 49 lines has that rank."""
    return next((line.text for line in lines[at + 1 : at + 50] if line.rank == lines[at].rank), "")


def _join_wrapped(lines: Sequence[Line]) -> list[Line]:
    """Join the wrapped lines of each message below a box of rich.

    Each wrapped line except the last ends with a space.
    """
    joined: list[Line] = []
    below = False
    for line in lines:
        last = joined[-1].text if joined else ""
        if below and last.endswith(" ") and len(last) <= LONGEST_LINE and line.rank == joined[-1].rank:
            joined[-1] = replace(joined[-1], text=last + line.text)
            continue
        below = last.startswith(BOX_END)
        joined.append(line)
    return joined


def _parse_line(number: int, shown: str, labels: frozenset[str]) -> Line:
    rank = None
    if labels and "".join(shown.partition(": ")[:2]) in labels:
        shown = shown.partition(": ")[2]
    for _ in range(MOST_PREFIXES if PREFIX.match(shown) else 0):
        match = STAMP.match(shown) or RANK.match(shown) or SOURCE.match(shown)
        if match is None:
            break
        if rank is None and match.re is RANK:
            rank = next((int(group) for group in match.groups() if group), 0)
        shown = shown[match.end() :]
    if "]" in shown and (match := BAR.match(shown)):
        shown = shown[match.end() :]
    if shown.startswith('{"'):
        shown = shown.replace('\\"', '"')
    return Line(number, rank, shown[:LONGEST_LINE])
