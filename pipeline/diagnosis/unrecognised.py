"""Find the first error in a log that is not in the catalog: the end of a traceback, or an error line. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from pipeline.diagnosis.catalog import identify
from pipeline.diagnosis.lines import Line, following_line
from pipeline.diagnosis.survived import is_handled, is_ignored

TRACEBACK = re.compile(r"^\s*Traceback \(most recent call last\):")
RAISED = re.compile(r"^(?!(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|\w+: Caught \w+ in )[A-Za-z_][\w.]*(?::\s.*|:?\s*)$")
"""The last line of a traceback: the exception's class and message.

Any name is accepted as a class. A line such as `RuntimeError: Caught KeyError in DataLoader worker process 0.` is not
the last: the worker's traceback follows.
"""
LONGEST_TRACEBACK = 20_000
LOGGED = r"(?:[-|] )?(?:[\w.]+ - |\[[\w.]+\])?\[?(?:ERROR|CRITICAL|FATAL)\b[^'\"]{0,120}?[\s:>|\]-]"
ANNOUNCED = r"[A-Z][\w ]{0,40}\b(?:failed|crashed|aborted)[^'\"]{0,40}?:\s"
CLASS = r"(?:[A-Za-z_]\w*\.)*(?:\w*(?:Error|Exception)|TimeoutExpired|StopIteration)"
ERROR = re.compile(rf"^(?:{LOGGED}|{ANNOUNCED})?(?:{CLASS}:(?:\s.*)?|(?:[A-Za-z_]\w*\.)*\w+(?:Error|Exception)\s*)$")
"""An exception without a traceback: at the start of a line, after a log prefix, or after an introductory phrase."""
METRIC = re.compile(
    r"(?:\w{0,60}(?:[Mm]ean|[Mm]edian|Squared|Absolute|Percentage|Relative|Root|Rate|Max)\w{0,60})?Error:"
    r"\s{0,20}[-+]?[\d.]{1,40}\S{0,40}\s*$"
)
CRASH = re.compile(
    r"^terminate called (?:after throwing|recursively)|^Fatal Python error: "
    r"|: Assertion [`'].{1,300} failed\.?$|Check failed: "
)
WHAT = re.compile(r"^\s+what\(\):\s+\S")
PROGRESS = re.compile(r"\bloss\b|\bstep\b|\bepoch\b|it/s|s/it", re.IGNORECASE)
BUFFER = 8192
"""The size of an output buffer in bytes. The buffer's content may be printed after the error that ended a program."""
LONGEST_MESSAGE = 400
MOST_LINES = 12
"""The limits of a message that continues on the following lines, as the representation of a large object does."""
WORDS = ("rror", "xception", "terminate called", "Assertion ", "Check failed", "TimeoutExpired", "StopIteration")
"""A line that contains none of these words is not an error."""


def first_unrecognised(lines: Sequence[Line], *, after: int) -> int | None:
    """Return the position of the first error after `after` that is not in the catalog, or None."""
    texts = [line.text for line in lines]
    ends = _ends_of_tracebacks(lines)
    raised = dict.fromkeys(end for start, end in ends if start > after and not is_ignored(texts, start))
    in_traceback = {end for _, end in ends}
    bare = (at for at in _without_traceback(lines) if at > after and at not in in_traceback)
    return min((*_first_not_in_catalog(texts, raised), *_first_not_in_catalog(texts, bare)), default=None)


def message_at(lines: Sequence[Line], at: int) -> str:
    """Return the message of the error at `at` on one line, with the following lines of the rank that belong to it.

    A line belongs to the message if it is indented, or if a bracket of the message is still open.
    """
    message = lines[at].text.strip()
    following = (line.text for line in lines[at + 1 : at + 50] if line.rank == lines[at].rank)
    for text in islice(following, MOST_LINES):
        is_open = sum(map(message.count, "([{")) > sum(map(message.count, ")]}"))
        if len(message) > LONGEST_MESSAGE or not text.strip() or not (is_open or text.startswith(("  ", "\t"))):
            break
        message += f" {text.strip()}"
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]} ..."


def _first_not_in_catalog(texts: Sequence[str], positions: Iterable[int]) -> tuple[int, ...]:
    """Return the first position whose line no catalog entry matches, as a tuple with at most one element."""
    return tuple(islice((at for at in positions if identify(texts[at]) is None), 1))


def _ends_of_tracebacks(lines: Sequence[Line]) -> list[tuple[int, int]]:
    """Return the first and the last position of each traceback that has an end, in order."""
    if not any(TRACEBACK.match(line.text) for line in lines):
        return []
    found: list[tuple[int, int]] = []
    raised: dict[int | None, int] = {}
    for at in range(len(lines) - 1, -1, -1):
        line = lines[at]
        end = raised.get(line.rank)
        if end is not None and end - at < LONGEST_TRACEBACK and TRACEBACK.match(line.text):
            found.append((at, end))
        if RAISED.match(line.text):
            raised[line.rank] = at
    return found[::-1]


def _without_traceback(lines: Sequence[Line]) -> Iterator[int]:
    """Yield the positions of errors that have no traceback."""
    suspects = [at for at, line in enumerate(lines) if any(word in line.text for word in WORDS)]
    last = _last_output(lines) if suspects else {}
    for at in suspects:
        line = lines[at]
        text = line.text
        if CRASH.search(text):
            yield _message_of(lines, at)
        elif at >= last[line.rank] and _is_error(text) and not is_handled(text, following_line(lines, at)):
            yield at


def _is_error(text: str) -> bool:
    return ERROR.match(text) is not None and not METRIC.match(text)


def _last_output(lines: Sequence[Line]) -> dict[int | None, int]:
    """Return, for each rank, the first position after which at most BUFFER bytes of progress output follow."""
    first: dict[int | None, int] = {}
    bytes_after: Counter[int | None] = Counter()
    for at in range(len(lines) - 1, -1, -1):
        rank = lines[at].rank
        if bytes_after[rank] <= BUFFER:
            first[rank] = at
            bytes_after[rank] += len(lines[at].text) if PROGRESS.search(lines[at].text) else 0
    return first


def _message_of(lines: Sequence[Line], at: int) -> int:
    """Return the position of a C++ exception's message, which follows the line with its class."""
    following = enumerate(lines[at + 1 : at + 4], at + 1)
    return next((n for n, line in following if line.rank == lines[at].rank and WHAT.match(line.text)), at)
