"""Find the settings in which a file turns bfloat16 switches, such as `bf16_run`, on or off."""

from __future__ import annotations

import re
from typing import NamedTuple

from fixers.sources.lines import lines_with

WORDS = (b"bf16", b"bfloat16", b"BF16")
NAME = rb"(\w*(?:bf16|bfloat16)\w*)"
SETTING = re.compile(
    NAME + rb"""["']?(?:[ \t]*:[ \t]*bool)?[ \t]*(?:==?|:)[ \t]*["']?(true|false|yes|no|on|off|1|0)\b""",
    re.IGNORECASE,
)
"""Matches `"bf16_run": false`, `bf16: bool = False` and `--bf16=true`."""
OPTION = re.compile(
    rb"""--([\w-]*(?:bf16|bfloat16)[\w-]*)["']?,?(?:[ \t=]+["']?(true|false|yes|no|on|off|1|0)\b)?""", re.IGNORECASE
)
DECLARED = re.compile(rb"""(?:add_argument|option)\([ \t]*["']--""")
DEFAULT_ON = re.compile(rb"default[ \t]*=[ \t]*True|store_false")
OFF = (b"false", b"no", b"off", b"0")


class Switches(NamedTuple):
    """The names of the bfloat16 switches that settings turn on, and of those that settings turn off."""

    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


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
    return Switches(tuple(sorted(found[True])), tuple(sorted(found[False] - found[True])))


def _name(word: bytes) -> str:
    return word.decode("ascii", "ignore").replace("-", "_").lower()
