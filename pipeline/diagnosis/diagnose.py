"""Diagnose a log: the failures in it, the earliest first, over all ranks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from pipeline.diagnosis.catalog import Entry, find_entry, identify, load_catalog
from pipeline.diagnosis.frames import Frame, calling_frame, own_frame
from pipeline.diagnosis.lines import Line, following_line, parse_log, without_escapes
from pipeline.diagnosis.replacements import replacements
from pipeline.diagnosis.survived import is_handled, is_quoted, last_finish
from pipeline.diagnosis.unrecognised import first_unrecognised, message_at
from pipeline.messages.masked import mask_tokens
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding, Severity
from remote.protocol.hidden import without_hidden

UNKNOWN = "unknown-error"
SYNTAX = "syntax"
MODULE_MISSING = "module-missing"
TORCHCODEC, TORCHAUDIO = "torchcodec", "torchaudio"
LOADS = "torchaudio-torchcodec"
"""The entry of `torchaudio.load`, which calls torchcodec."""
CONTEXT_LINES = 3
MOST_NAMES = 20
"""The number of different names that a diagnosis contains: the cause of each is searched in the project."""
MOST_ATTRIBUTED = 50
"""The number of errors whose tracebacks are searched for the library that raised them."""
BLOCK = 1000


@dataclass(frozen=True)
class Diagnosis:
    """One failure in a log.

    `entry` is None for an unrecognised error. `line` is the first line of the failure. `survived`: the training
    completed afterwards, so the error was handled, or only quoted in other output. `frame` is the innermost line of the
    user's own code in the traceback, if there is a traceback. `names` are the names in the matching lines, such as
    missing modules, at most MOST_NAMES. `message` is the whole message of an unrecognised error, on one line.
    """

    entry: Entry | None
    line: Line
    context: tuple[str, ...] = ()
    count: int = 1
    survived: bool = False
    frame: Frame | None = None
    names: tuple[str, ...] = ()
    message: str = ""

    @property
    def cause(self) -> str:
        """The cause from the catalog, followed by `names`; "" for an unrecognised error."""
        cause = self.entry.cause if self.entry is not None else ""
        return f"{cause.rstrip('.')}: {', '.join(self.names)}" if self.names else cause

    @property
    def fix(self) -> str:
        """What to do, with the replacements of `names` that a library removed; "" for an unrecognised error."""
        if self.entry is None:
            return ""
        return " ".join(filter(None, (replacements(self.entry.id, self.names), self.entry.fix)))

    @property
    def is_cause(self) -> bool:
        """Return True if the failure ends training by itself."""
        return self.entry is None or (self.entry.severity is Severity.ERROR and not self.is_consequence)

    @property
    def is_problem(self) -> bool:
        """Return False for a notice, and for an error that the training survived."""
        return not self.survived and (self.entry is None or self.entry.severity is not Severity.INFO)

    @property
    def is_consequence(self) -> bool:
        """Return True if the failure is usually the result of another failure."""
        return self.entry is not None and self.entry.consequence

    @property
    def check(self) -> str:
        """The name of the failure in findings."""
        return self.entry.id if self.entry else UNKNOWN


def diagnose_log(text: str, first: int = 1) -> tuple[Diagnosis, ...]:
    """Return the failures in a log: causes, then consequences, then warnings, each in the order of its first line.

    Notices (severity info) and errors that the training survived are included only together with other failures. An
    unrecognised error is included only if no entry of the catalog explains the end of the training. Hidden values and
    access tokens are masked before the log is read.
    """
    lines = parse_log(mask_tokens(without_hidden(without_escapes(text))), first)
    finish = last_finish([line.text for line in lines])
    found = list(_known(lines, finish))
    if any(one.is_consequence and not one.survived for one in found):
        found = [replace(one, survived=False) for one in found]
    problems = [one for one in found if one.is_problem]
    if not any(one.is_cause for one in problems):
        found += _unrecognised(lines, after=-1 if problems else finish)
    if not any(one.is_problem for one in found):
        return ()
    return tuple(sorted(found, key=_rank))


def _unrecognised(lines: Sequence[Line], *, after: int) -> Iterator[Diagnosis]:
    at = first_unrecognised(lines, after=after)
    if at is not None:
        frame, message = own_frame(lines, at), message_at(lines, at)
        yield Diagnosis(None, lines[at], _context(lines, at), frame=frame, message=message)


def _rank(one: Diagnosis) -> tuple[int, int]:
    if one.entry is None:
        return (0, one.line.number)
    order = {Severity.ERROR: 0, Severity.WARNING: 2, Severity.INFO: 3}[one.entry.severity]
    return (3 if one.survived else 1 if one.entry.consequence else order, one.line.number)


def _known(lines: Sequence[Line], finish: int) -> Iterator[Diagnosis]:
    counts: Counter[str] = Counter()
    firsts: dict[str, tuple[Entry, int, bool]] = {}
    names: dict[str, dict[str, None]] = {}
    for at, text, entry in _identified(lines):
        if _is_source(lines, at) or _is_mention(entry, text):
            continue
        counts[entry.id] += 1
        found = names.setdefault(entry.id, {})
        if len(found) < MOST_NAMES and (name := entry.name_in(text)):
            found[name] = None
        may_survive = entry.severity is Severity.ERROR and not entry.is_state
        survived = may_survive and (at < finish or is_handled(text, following_line(lines, at)))
        if entry.id not in firsts or (firsts[entry.id][2] and not survived):
            firsts[entry.id] = (entry, at, survived)
    for name, (entry, at, survived) in firsts.items():
        if counts[name] >= entry.repeats:
            frame, context = _frame_of(lines, at, entry), _context(lines, at)
            yield Diagnosis(entry, lines[at], context, counts[name], survived, frame, tuple(names[name]))


def _identified(lines: Sequence[Line]) -> Iterator[tuple[int, str, Entry]]:
    """Yield position, text and entry of each matching line.

    A block of lines is matched only against entries with a word that occurs in the block.
    """
    attributed: list[Entry] = []
    for start in range(0, len(lines), BLOCK):
        texts = [line.text for line in lines[start : start + BLOCK]]
        block = "\n".join(texts)
        possible = [one for one in load_catalog() if not one.needles or any(word in block for word in one.needles)]
        for at, text in enumerate(texts, start) if possible else ():
            entry = identify(text, possible)
            if entry is not None and entry.id in (TORCHCODEC, MODULE_MISSING) and TORCHCODEC in text:
                entry = attributed[-1] if len(attributed) >= MOST_ATTRIBUTED else _of_caller(lines, at, entry)
                attributed.append(entry)
            if entry is not None:
                yield at, text, entry


def _of_caller(lines: Sequence[Line], at: int, entry: Entry) -> Entry:
    """Return the entry of torchaudio for an error about torchcodec in a call of torchaudio, else the entry itself."""
    return (find_entry(LOADS) if calling_frame(lines, at, TORCHAUDIO) is not None else None) or entry


def _frame_of(lines: Sequence[Line], at: int, entry: Entry) -> Frame | None:
    """Return the user's own line in the traceback, or the line of an installed package that calls torchaudio."""
    return own_frame(lines, at) or (calling_frame(lines, at, TORCHAUDIO) if entry.id == LOADS else None)


def _is_mention(entry: Entry, text: str) -> bool:
    match = entry.pattern.search(text)
    return match is not None and is_quoted(text, match.start(), match.end())


def _is_source(lines: Sequence[Line], at: int) -> bool:
    """Return True for a line of source code in a traceback. Such a line may quote an error that did not occur."""
    if not lines[at].text.startswith("    "):
        return False
    before = next((line for line in reversed(lines[max(0, at - 40) : at]) if line.rank == lines[at].rank), None)
    return before is not None and before.text.startswith('  File "')


def _context(lines: Sequence[Line], at: int) -> tuple[str, ...]:
    """Return the line, after a few preceding lines of the same rank."""
    rank = lines[at].rank
    same = [line.text[:400] for line in lines[max(0, at - 40) : at] if line.rank == rank and line.text.strip()]
    return (*same[-CONTEXT_LINES:], lines[at].text[:400])


def as_finding(one: Diagnosis, log: str = "") -> Finding:
    """Return a diagnosis as a finding, with the lines of the user's code and of the log, the cause and the fix."""
    where = f"{log}, " * bool(log) + f"line {one.line.number}"
    where += f", rank {one.line.rank}" if one.line.rank is not None else ""
    if one.frame is not None:
        where = f"{one.frame}{': ' * bool(one.frame.code)}{one.frame.code}; {where}"
    if one.entry is None:
        return Finding.error(UNKNOWN, f"unrecognised error: {one.message}", where)
    if one.survived:
        message = f"non-fatal, training completed: {one.cause}"
        return Finding(one.entry.id, Severity.INFO, message, where, one.fix)
    return Finding(one.entry.id, one.entry.severity, one.cause, where, one.fix)


def with_undo(found: Iterable[Finding], rewritten: Collection[str]) -> tuple[Finding, ...]:
    """Return the findings. For a syntax error in a file that a fixer has rewritten, the hint is to undo the rewrite."""
    files = tuple(f"{path}:" for path in rewritten)
    undo = "Run `pipeline fix --undo`: a fixer has rewritten this file on the host."
    return tuple(
        replace(one, hint=undo) if one.check == SYNTAX and one.where.startswith(files) else one for one in found
    )


def diagnose_text(
    text: str | Iterable[str],
    log: str = "",
    first: int = 1,
    explain: Callable[[Finding, Diagnosis], Finding] = lambda finding, _: finding,
) -> tuple[Finding, ...]:
    """Return the findings of one log, the earliest first, or () for a healthy log.

    `log` is the name of the log. `explain` returns a finding with what the files of the laptop tell about it.
    """
    whole = text if isinstance(text, str) else "\n".join(line.rstrip("\n") for line in text)
    return tuple(explain(as_finding(one, log), one) for one in diagnose_log(whole, first))
