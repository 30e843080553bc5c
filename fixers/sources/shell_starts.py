"""Find the Python files that a shell script starts, also through its variables. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from fixers.sources.launched import ASSIGNMENT, CONTINUED, OUTSIDE, SHOWN, launched_in

VARIABLE = re.compile(rb"\$(?:(\w+)|\{(\w+)(?::?-([^}\n]{0,200}))?\})")
"""Matches a variable, with its default."""
FOLDER_OF_LAUNCHER = re.compile(
    rb"""(?<![^\s"'`(;&|=])[^\s"'`(;&|=]{1,200}/(?=(?:python[\d.]*|torchrun|accelerate|deepspeed)\s)"""
)
PYTHON = re.compile(rb"^(?!\s*#)(?:[^\n]*[\s;&|(/])?(?:python[\d.]*|torchrun|accelerate[ \t]+launch|deepspeed)[ \t]")
"""Matches a line that starts Python."""
NAMES_CODE = re.compile(rb"\.py\b|[ \t]-[cm][ \t]|[ \t]--module[ \t]")
NESTED = 3
"""The number of times that variables are replaced, because a value may contain other variables."""
MOST_VALUES = 8
LONGEST_VALUE = 500
LONGEST_TEXT = 64 * 2**10
LONGEST_LINE = 4000
"""Longer lines are data: the time of a search can grow with the square of a line's length."""


def files_started(path: str, data: bytes) -> frozenset[str]:
    """Return the Python files that the commands of a shell script start, relative to the project.

    A module after `-m` is returned as the path of its file. If a variable gets several values, each of them counts.
    """
    texts = dict.fromkeys([CONTINUED.sub(b" ", data[:LONGEST_TEXT]), *_variants(data)])
    found = (each.script for one in texts for each in launched_in(path, FOLDER_OF_LAUNCHER.sub(b"", _commands(one))))
    return frozenset(posixpath.normpath(OUTSIDE.sub("", script)) for script in found)


def starts_unknown_files(data: bytes) -> bool:
    """Return True if a command of the script starts Python with a file that only an argument of the script names."""
    lines = (line for text in _variants(data) for line in SHOWN.sub(rb"\1", _commands(text)).split(b"\n"))
    return any(PYTHON.search(line) and b"$" in line and not NAMES_CODE.search(line) for line in lines)


def _variants(data: bytes) -> Iterator[bytes]:
    """Yield the text once for each value of the variable that gets the most values, with the variables replaced."""
    text = CONTINUED.sub(b" ", data[:LONGEST_TEXT])
    values: dict[bytes, list[bytes]] = {}
    for name, value in ASSIGNMENT.findall(text):
        values.setdefault(name, []).append(b" ".join(value.split()).strip(b"\"'")[:LONGEST_VALUE])
    for number in range(min(MOST_VALUES, max(map(len, values.values()), default=1))):
        yield _with_values(text, values, number)


def _commands(text: bytes) -> bytes:
    """Return the lines of the text that may be commands."""
    return b"\n".join(line for line in text.split(b"\n") if len(line) <= LONGEST_LINE)


def _with_values(text: bytes, values: Mapping[bytes, Sequence[bytes]], number: int) -> bytes:
    """Return the text with each variable replaced by its value with the index `number`, or by its last value."""

    def value_of(found: re.Match[bytes]) -> bytes:
        given = values.get(found[1] or found[2]) or ([found[3]] if found[3] else [found[0]])
        return given[min(number, len(given) - 1)]

    for _ in range(NESTED):
        text = VARIABLE.sub(value_of, text)[:LONGEST_TEXT]
    return text
