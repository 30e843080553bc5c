"""From a log to what went wrong, first in time first, whichever rank said it; a healthy log gives nothing. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipeline.diagnosis.catalog import Entry, identify, load_catalog
from pipeline.diagnosis.lines import Line, parse_log
from pipeline.diagnosis.survived import is_quoted, last_finish
from pipeline.diagnosis.unrecognised import first_unrecognised
from pipeline.messages.masked import mask_tokens
from remote.protocol.findings import Finding, Severity

UNKNOWN = "unknown-error"
CONTEXT_LINES = 3
LONGEST_LINE = 4000
BLOCK = 1000


@dataclass(frozen=True)
class Diagnosis:
    """One thing that went wrong. `entry` is None for an unrecognised error, whose words are in `line`.

    `survived`: the training completed after it, so it was caught, or only mentioned.
    """

    entry: Entry | None
    line: Line
    context: tuple[str, ...] = ()
    count: int = 1
    survived: bool = False

    @property
    def is_cause(self) -> bool:
        """It ends a training by itself."""
        return self.entry is None or (self.entry.severity is Severity.ERROR and not self.entry.consequence)

    @property
    def check(self) -> str:
        """The name it goes by in findings."""
        return self.entry.id if self.entry else UNKNOWN


def diagnose_log(text: str, first: int = 1) -> tuple[Diagnosis, ...]:
    """Everything known in a log: causes, then consequences, then warnings, each in the order of its first line.

    Notices (severity info) and errors that the training survived are told only beside something worse. Where nothing
    known but an unrecognised error is there, that is.
    """
    lines = parse_log(text, first)
    finish = last_finish([line.text for line in lines])
    known = list(_known(lines, finish))
    if any(one.entry and one.entry.consequence and not one.survived for one in known):
        known = [replace(one, survived=False) for one in known]
    worse = [one for one in known if one.entry and one.entry.severity is not Severity.INFO and not one.survived]
    if not any(one.is_cause for one in worse):
        at = first_unrecognised(lines, after=-1 if worse else finish)
        worse = [*([Diagnosis(None, lines[at], _around(lines, at))] if at is not None else []), *worse]
    if not worse:
        return ()
    found = sorted([*worse, *(one for one in known if one not in worse)], key=_importance)
    return tuple(_without_tokens(one) for one in found)


def _without_tokens(one: Diagnosis) -> Diagnosis:
    """The same with nothing in its words that opens an account: a report of it may be shown to anybody."""
    line = replace(one.line, text=mask_tokens(one.line.text))
    return replace(one, line=line, context=tuple(mask_tokens(text) for text in one.context))


def _importance(one: Diagnosis) -> tuple[int, int]:
    if one.entry is None:
        return (0, one.line.number)
    order = {Severity.ERROR: 0, Severity.WARNING: 2, Severity.INFO: 3}[one.entry.severity]
    return (3 if one.survived else 1 if one.entry.consequence else order, one.line.number)


def _known(lines: Sequence[Line], finish: int) -> Iterator[Diagnosis]:
    counts: Counter[str] = Counter()
    firsts: dict[str, tuple[Entry, int]] = {}
    for at, text, entry in _identified(lines):
        if _is_source(lines, at) or _is_spoken_of(entry, text):
            continue
        counts[entry.id] += 1
        if entry.id not in firsts or firsts[entry.id][1] < finish < at:
            firsts[entry.id] = (entry, at)
    for name, (entry, at) in firsts.items():
        if counts[name] >= entry.repeats:
            survived = at < finish and entry.severity is Severity.ERROR and not entry.is_state
            yield Diagnosis(entry, lines[at], _around(lines, at), counts[name], survived)


def _identified(lines: Sequence[Line]) -> Iterator[tuple[int, str, Entry]]:
    """Position, text and entry of each line that some entry matches; of the catalog, a block of lines is tried only
    against entries that have a word in it."""
    for start in range(0, len(lines), BLOCK):
        texts = [line.text[:LONGEST_LINE] for line in lines[start : start + BLOCK]]
        block = "\n".join(texts)
        possible = [one for one in load_catalog() if not one.needles or any(word in block for word in one.needles)]
        for at, text in enumerate(texts, start) if possible else ():
            entry = identify(text, possible)
            if entry is not None:
                yield at, text, entry


def _is_spoken_of(entry: Entry, text: str) -> bool:
    match = entry.pattern.search(text)
    return match is not None and is_quoted(text, match.start(), match.end())


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


def as_finding(one: Diagnosis, log: str = "") -> Finding:
    """A diagnosis as a finding: where in which log, what it means, what to do about it."""
    where = f"{log}, " * bool(log) + f"line {one.line.number}"
    where += f", rank {one.line.rank}" if one.line.rank is not None else ""
    if one.entry is None:
        words = f"unrecognised error: {one.line.text.strip()[:400]}"
        return Finding.error(UNKNOWN, words, where)
    if one.survived:
        words = f"non-fatal, training completed: {one.entry.cause}"
        return Finding(one.entry.id, Severity.INFO, words, where, one.entry.fix)
    return Finding(one.entry.id, one.entry.severity, one.entry.cause, where, one.entry.fix)


def diagnose_text(text: str | Iterable[str], log: str = "", first: int = 1) -> tuple[Finding, ...]:
    """The findings over one log, the first in time first; () where it is healthy. `log` is what it is called."""
    whole = text if isinstance(text, str) else "\n".join(line.rstrip("\n") for line in text)
    return tuple(as_finding(one, log) for one in diagnose_log(whole, first))
