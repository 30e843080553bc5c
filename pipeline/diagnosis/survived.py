"""Detect errors that did not end the training: quoted in data, or handled in a training that completed. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

FINISHED = re.compile(
    r"""['"]train_runtime['"]\s*:|\b[Tt]raining\s+(?:is\s+|has\s+)?(?:finished|completed?|done)\b"""
    r"""|\b(?:[Ff]inished|[Cc]ompleted|[Dd]one\s+with)\s+training\b""",
)
RAISED = re.compile(r"^\s*(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Failed)\b|^(?:[a-z_]\w*\.)+[A-Z]\w*:\s")
IGNORED = re.compile(r"^Exception ignored in\b|^--- Logging error ---")
GOES_ON = r"(?:skipp(?:ing|ed)|retry(?:ing)?|retried|ignor(?:ing|ed)|continuing|falling back|going on|trying again"
GOES_ON += r"|trying (?:batch size )?\d{1,9}|reducing (?:the )?batch size|using \S{1,100} instead)"
CAUGHT = r"(?:caught|handled|ignored|recovered from|non-?fatal)"
HANDLED = re.compile(
    rf"\b{CAUGHT}\b[^:]{{0,200}}:?\s{{1,20}}\S{{0,100}}(?:Error|Exception)\b|\b[Ee]rror caught was: "
    rf"|\b{GOES_ON}\b.{{0,400}}(?:Error|Exception)\b"
    rf"|(?:[,;:(\u2013\u2014]|\s-|->|\b(?:will|and))\s{{0,20}}{GOES_ON}\b",
    re.IGNORECASE,
)
HANDLED_NEXT = re.compile(rf"(?:^|[,;]\s{{0,20}})\W{{0,20}}{GOES_ON}\b", re.IGNORECASE)


def last_finish(texts: Sequence[str]) -> int:
    """Return the position of the last line that reports a completed training, or -1 if there is no such line.

    Lines with a loss are not evidence: with a buffered stdout, they may follow the traceback that ended the training.
    """
    return next((at for at in range(len(texts) - 1, -1, -1) if FINISHED.search(texts[at])), -1)


def is_quoted(text: str, start: int, end: int) -> bool:
    """Return True if the text between these positions is in double quotes, and the line itself reports no exception.

    Lines of JSON never count as quoted.
    """
    if text.lstrip().startswith("{") or RAISED.match(text):
        return False
    before = text[:start].count('"')
    return before % 2 == 1 and '"' not in text[start:end] and '"' in text[end:]


def is_handled(text: str, following: str) -> bool:
    """Return True if the line or the next line says that the program continues after an exception."""
    return HANDLED.search(text) is not None or HANDLED_NEXT.search(following) is not None


def is_ignored(texts: Sequence[str], at: int) -> bool:
    """Return True if Python printed this traceback while it freed an object or wrote to a log."""
    return at > 0 and IGNORED.match(texts[at - 1]) is not None
