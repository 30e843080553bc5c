"""From a log to what went wrong, first in time first, whichever rank said it; a healthy log gives nothing. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.diagnosis.catalog import Entry, identify
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity

UNKNOWN = "unknown-error"
CONTEXT_LINES = 3
LONGEST_LINE = 4000
RANK = re.compile(r"^\[(?:rank|default|Rank )\s*(\d+)\]:?\s?|^\[(?:[\w.-]+):(\d+)\]:\s?|^(\d+):\s(?=\S)")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
TRACEBACK = re.compile(r"^\s*Traceback \(most recent call last\):")
EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Failed|Stopped)\b.*")


@dataclass(frozen=True)
class Line:
    """One line of a log: its number from 1, the rank that wrote it where its prefix says so, its bare text."""

    number: int
    rank: int | None
    text: str


@dataclass(frozen=True)
class Diagnosis:
    """One thing that went wrong. `entry` None: nobody knows it, `line` is how its first traceback ended."""

    entry: Entry | None
    line: Line
    context: tuple[str, ...] = ()
    count: int = 1

    @property
    def check(self) -> str:
        """The name it goes by in findings."""
        return self.entry.id if self.entry else UNKNOWN


def parse_log(text: str, first: int = 1) -> list[Line]:
    """Lines without colours and without their rank's prefix; what a progress bar overwrote is a line of its own.

    `first` is the number of the text's first line in its log.
    """
    lines = []
    for number, raw in enumerate(text.split("\n"), first):
        for shown in ESCAPES.sub("", raw).split("\r"):
            match = RANK.match(shown)
            rank = next((int(group) for group in match.groups() if group), 0) if match else None
            lines.append(Line(number, rank, shown[match.end() :] if match else shown))
    return lines


def diagnose_log(text: str, first: int = 1) -> tuple[Diagnosis, ...]:
    """Everything known in a log: causes, then consequences, then warnings, each in the order of its first line.

    Notices (severity info) are told only beside something worse. Where nothing known but a traceback is there, that is.
    """
    lines = parse_log(text, first)
    known = list(_known(lines))
    worse = [one for one in known if one.entry and one.entry.severity is not Severity.INFO]
    if not any(one.entry and one.entry.severity is Severity.ERROR and not one.entry.consequence for one in worse):
        stranger = _first_traceback(lines, {one.line.number for one in worse})
        worse = [*([stranger] if stranger else []), *worse]
    if not worse:
        return ()
    return tuple(sorted([*worse, *(one for one in known if one not in worse)], key=_importance))


def _importance(one: Diagnosis) -> tuple[int, int]:
    if one.entry is None:
        return (0, one.line.number)
    order = {Severity.ERROR: 0, Severity.WARNING: 2, Severity.INFO: 3}[one.entry.severity]
    return (1 if one.entry.consequence else order, one.line.number)


def _known(lines: Sequence[Line]) -> Iterator[Diagnosis]:
    counts: Counter[str] = Counter()
    firsts: dict[str, tuple[Entry, int]] = {}
    for at, line in enumerate(lines):
        entry = None if _is_source(lines, at) else identify(line.text[:LONGEST_LINE])
        if entry is not None:
            counts[entry.id] += 1
            firsts.setdefault(entry.id, (entry, at))
    for name, (entry, at) in firsts.items():
        if counts[name] >= entry.repeats:
            yield Diagnosis(entry, lines[at], _around(lines, at), counts[name])


def _is_source(lines: Sequence[Line], at: int) -> bool:
    """It is the line of code that a traceback shows, which may hold the words of an error that never happened."""
    if not lines[at].text.startswith("    "):
        return False
    before = next((line for line in reversed(lines[max(0, at - 40) : at]) if line.rank == lines[at].rank), None)
    return before is not None and before.text.startswith('  File "')


def _around(lines: Sequence[Line], at: int) -> tuple[str, ...]:
    """The lines before it of the same rank, and it."""
    rank = lines[at].rank
    same = [line.text[:400] for line in lines[max(0, at - 40) : at] if line.rank == rank and line.text.strip()]
    return (*same[-CONTEXT_LINES:], lines[at].text[:400])


def _first_traceback(lines: Sequence[Line], told: set[int]) -> Diagnosis | None:
    """The end of the first traceback that nothing in the catalog explains."""
    for at, line in enumerate(lines):
        if TRACEBACK.match(line.text):
            end = _end_of_traceback(lines, at)
            if end is not None and lines[end].number not in told:
                return Diagnosis(None, lines[end], _around(lines, end))
    return None


def _end_of_traceback(lines: Sequence[Line], start: int) -> int | None:
    rank = lines[start].rank
    for at in range(start + 1, min(start + 2000, len(lines))):
        line = lines[at]
        if line.rank == rank and line.text and not line.text.startswith((" ", "\t")) and EXCEPTION.match(line.text):
            return at
    return None


def as_finding(one: Diagnosis, log: str = "") -> Finding:
    """A diagnosis as a finding: where in which log, what it means, what to do about it."""
    where = f"{log}, " * bool(log) + f"line {one.line.number}"
    where += f", rank {one.line.rank}" if one.line.rank is not None else ""
    if one.entry is None:
        words = f"nobody has met this before: {one.line.text.strip()[:400]}"
        return Finding(UNKNOWN, Severity.ERROR, words, where, exit_code=ExitCode.TRAINING)
    code = ExitCode.TRAINING if one.entry.severity is Severity.ERROR else ExitCode.OK
    return Finding(one.entry.id, one.entry.severity, one.entry.cause, where, one.entry.fix, code)


def diagnose_text(text: str | Iterable[str], log: str = "", first: int = 1) -> tuple[Finding, ...]:
    """The findings over one log, the first in time first; () where it is healthy. `log` is what it is called."""
    whole = text if isinstance(text, str) else "\n".join(line.rstrip("\n") for line in text)
    return tuple(as_finding(one, log) for one in diagnose_log(whole, first))
