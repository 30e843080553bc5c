"""Find the bfloat16 switches, such as `bf16_run`, that a file turns on or off, and the options that it passes."""

from __future__ import annotations

import re
from typing import NamedTuple

from fixers.sources.lines import lines_with

WORDS = (b"bf16", b"bfloat16", b"BF16")
NAME = rb"(?<!\w)(\w{0,120}(?:bf16|bfloat16)\w{0,120})(?!\w)"
SETTING = re.compile(
    NAME + rb"""["']?(?:[ \t]*:[ \t]*bool)?[ \t]*(?:==?|:)[ \t]*["']?(true|false|yes|no|on|off|1|0)\b""",
    re.IGNORECASE,
)
"""Matches `"bf16_run": false`, `bf16: bool = False` and `--bf16=true`."""
OPTION = re.compile(
    rb"""--([\w-]{0,80}(?:bf16|bfloat16)[\w-]{0,80})["']?,?(?:[ \t=]{1,40}["']?(true|false|yes|no|on|off|1|0)\b)?""",
    re.IGNORECASE,
)
DECLARED = re.compile(rb"""(?:add_argument|option)\([ \t]*["']--""")
IN_DECLARATION = re.compile(rb"(?:add_argument|add_option|[oO]ption|[aA]rgument)\([^()]*$")
LONGEST_DECLARATION = 400
DEFAULT_ON = re.compile(rb"default[ \t]*=[ \t]*True|store_false")
OFF = (b"false", b"no", b"off", b"0")


class Switches(NamedTuple):
    """The names of the bfloat16 switches that settings turn on or off, and of the options that commands pass."""

    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()


def switches_in(data: bytes) -> Switches:
    """Return the switches that the settings, commands and defaults of the text turn on or off."""
    if not any(word in data for word in WORDS):
        return Switches()
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for line in lines_with(data, WORDS).splitlines():
        if DECLARED.search(line):
            found[DEFAULT_ON.search(line) is not None] |= {_name(each[1]) for each in OPTION.finditer(line)}
            continue
        for pattern in (SETTING, OPTION):
            for each in pattern.finditer(line):
                found[(each[2] or b"true").lower() not in OFF].add(_name(each[1]))
    passed = {_name(each[1]) for each in OPTION.finditer(data) if not _is_declared(data, each.start())}
    return Switches(tuple(sorted(found[True])), tuple(sorted(found[False] - found[True])), tuple(sorted(passed)))


def _is_declared(data: bytes, at: int) -> bool:
    """Return True if the option at this offset is an argument of `add_argument(` or of a similar call."""
    return IN_DECLARATION.search(data[max(0, at - LONGEST_DECLARATION) : at]) is not None


def _name(word: bytes) -> str:
    return word.decode("ascii", "ignore").replace("-", "_").lower()
