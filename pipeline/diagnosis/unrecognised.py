"""The first error of a log that no entry of the catalog names: the end of a traceback, or of the log. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from pipeline.diagnosis.catalog import identify
from pipeline.diagnosis.lines import Line
from pipeline.diagnosis.survived import is_handled, is_ignored

TRACEBACK = re.compile(r"^\s*Traceback \(most recent call last\):")
RAISED = re.compile(r"^(?!(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b)[A-Za-z_][\w.]*(?::\s.*|:?\s*)$")
"""How a traceback ends: the exception's class, and what it says. Any name may be a class."""
LONGEST_TRACEBACK, LONGEST_LINE = 2000, 4000
LOGGED = r"(?:[-|] )?(?:[\w.]+ - )?\[?(?:ERROR|CRITICAL|FATAL)\b[^'\"]{0,120}?[\s:>|\]-]"
TOLD = r"[A-Z][\w ]{0,40}\b(?:failed|crashed|aborted)[^'\"]{0,40}?:\s"
CLASS = r"(?:[A-Za-z_]\w*\.)*(?:\w*(?:Error|Exception)|TimeoutExpired|StopIteration)"
ERROR = re.compile(rf"^(?:{LOGGED}|{TOLD})?(?:{CLASS}:(?:\s.*)?|(?:[A-Za-z_]\w*\.)*\w+(?:Error|Exception)\s*)$")
"""An exception whose traceback was not printed, alone in its line or behind what announces it."""
METRIC = re.compile(
    r"(?:\w*(?:[Mm]ean|[Mm]edian|Squared|Absolute|Percentage|Relative|Root|Rate|Max)\w*)?Error:\s*[-+]?[\d.]+\S*\s*$"
)
CRASH = re.compile(
    r"^terminate called (?:after throwing|recursively)|^Fatal Python error: "
    r"|: Assertion [`'].{1,300} failed\.?$|Check failed: "
)
WHAT = re.compile(r"^\s+what\(\):\s+\S")
PROGRESS = re.compile(r"\bloss\b|\bstep\b|\bepoch\b|it/s|s/it", re.IGNORECASE)
BUFFER = 8192
"""So many bytes of a program's output may wait in a buffer, and come after the error that ended it."""
WORDS = ("rror", "xception", "terminate called", "Assertion ", "Check failed", "TimeoutExpired", "StopIteration")
"""A line without any of these is no error."""


def first_unrecognised(lines: Sequence[Line], *, after: int) -> int | None:
    """The position of the first error behind the position `after` that is in no entry of the catalog."""
    texts = [line.text for line in lines]
    ends = {start: _end_of_traceback(lines, start) for start, text in enumerate(texts) if TRACEBACK.match(text)}
    raised = (end for start, end in ends.items() if end is not None and start > after and not is_ignored(texts, start))
    within = set(ends.values())
    bare = (at for at in _without_traceback(lines) if at > after and at not in within)
    firsts = (next((at for at in found if identify(texts[at]) is None), None) for found in (raised, bare))
    return min((at for at in firsts if at is not None), default=None)


def _end_of_traceback(lines: Sequence[Line], start: int) -> int | None:
    following = enumerate(lines[start + 1 : start + LONGEST_TRACEBACK], start + 1)
    return next((at for at, line in following if line.rank == lines[start].rank and RAISED.match(line.text)), None)


def _without_traceback(lines: Sequence[Line]) -> Iterator[int]:
    """The lines that alone say what ended a program."""
    suspects = [at for at, line in enumerate(lines) if any(word in line.text for word in WORDS)]
    last = _stderr_text(lines) if suspects else {}
    for at in suspects:
        line = lines[at]
        text = line.text[:LONGEST_LINE]
        if CRASH.search(text):
            yield _said(lines, at)
        elif at >= last[line.rank] and ERROR.match(text) and not METRIC.match(text):
            following = (each.text for each in lines[at + 1 : at + 50] if each.rank == line.rank)
            if not is_handled(text, next(following, "")):
                yield at


def _stderr_text(lines: Sequence[Line]) -> dict[int | None, int]:
    """By rank, the position from which on an error may have ended it: less progress follows than fits a buffer."""
    first: dict[int | None, int] = {}
    behind: Counter[int | None] = Counter()
    for at in range(len(lines) - 1, -1, -1):
        rank = lines[at].rank
        if behind[rank] <= BUFFER:
            first[rank] = at
            behind[rank] += len(lines[at].text) if PROGRESS.search(lines[at].text) else 0
    return first


def _said(lines: Sequence[Line], at: int) -> int:
    """The line with the words of a C++ exception, which comes after the line with its class."""
    following = enumerate(lines[at + 1 : at + 4], at + 1)
    return next((n for n, line in following if line.rank == lines[at].rank and WHAT.match(line.text)), at)
