"""Find the error in the output of a command that failed: its last traceback, or its last line of text."""

from __future__ import annotations

import re
from typing import Iterator, List, Optional

ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|\x1b[=>78]")
RANK = re.compile(r"^(?:\[[\w.-]{0,40}\d\]:?\s?){1,3}")
BAR = re.compile(r"\d{1,3}%\|[^|\n]{0,300}\|[^\[\n]{0,60}(?:\[[^\]\n]{0,200}\])?|\d(?:it|s/it) \[[^\]\n]{0,200}\]")
"""Matches a progress bar of tqdm. An error may follow on the same line."""
FAREWELL = re.compile(r"^(?:wandb|mlflow|swanlab|comet\S{0,20})\b", re.IGNORECASE)
"""Matches a line that an experiment tracker prints when the process ends."""
TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"^[A-Za-z_][\w.]{0,200}(?::\s.*|:?\s*)$")
OF_LAUNCHERS = ("ChildFailedError", "CalledProcessError", "BrokenPipeError", "SystemExit")
"""Exceptions that follow from the failure of another process."""


def failure_text(output: str) -> str:
    """Return the exception of the last traceback that no launcher printed, else the last line of text, or ""."""
    lines = list(_lines(output))
    raised = [each for each in _exceptions(lines) if not each.partition(":")[0].endswith(OF_LAUNCHERS)]
    if raised:
        return raised[-1]
    texts = (line.strip() for line in reversed(lines))
    return next((text for text in texts if text and not FAREWELL.match(text)), "")


def _lines(output: str) -> Iterator[str]:
    """Yield the lines without escape sequences, prefixes of ranks and progress bars."""
    for line in ESCAPES.sub("", output).replace("\r", "\n").split("\n"):
        shown = RANK.sub("", line)
        bars = list(BAR.finditer(shown))
        yield shown[bars[-1].end() :].lstrip(" ,]") if bars else shown


def _exceptions(lines: List[str]) -> Iterator[str]:
    """Yield the last line of each traceback: its first line that is not indented."""
    inside = False
    for line in lines:
        if TRACEBACK in line:
            inside = True
        elif inside and (found := _exception(line)) is not None:
            inside = False
            yield from [found] if found else []


def _exception(line: str) -> Optional[str]:
    """Return the exception in a line, "" for another line that ends a traceback, or None if the traceback goes on."""
    if not line.strip() or line[:1] in " \t|":
        return None
    return line.strip() if RAISED.match(line) else ""
