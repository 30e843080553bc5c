"""Parse TOML of foreign projects within limits of size and depth."""

from __future__ import annotations

import re
import tomllib
from typing import Any

MAX_CHARACTERS = 2**20
MAX_DOTS = 64
QUOTED = re.compile(
    r"""
    \"{3}(?:[^"\\]|\\(?s:.)|"(?!""))*+(?:"{3,5})?
    | '{3}(?:[^']|'(?!''))*+(?:'{3,5})?
    | "(?:[^"\\\n]|\\.)*+"?
    | '[^'\n]*+'?
    | \#[^\n]*+
    """,
    re.VERBOSE,
)
"""Matches strings and comments, also a string that does not end, so that each character is read once."""
LONG_KEY = re.compile(rf"(?<![\w-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{MAX_DOTS}}}", re.ASCII)


LONG_NUMBER = re.compile(r"0x[0-9a-fA-F_]{1000}|0[ob][0-7_]{1000}|(?<![\w-])\d[\d_]{1000}", re.ASCII)
"""Python converts no integer of more than 4,300 decimal digits to text, whatever the base in which it was written."""


def parse_toml(text: str) -> dict[str, Any]:
    """Return the document. Raises TOMLDecodeError, and RecursionError for deeply nested values.

    A text above MAX_CHARACTERS, with a number of more than 1,000 digits or with a key of more than MAX_DOTS dots is an
    error too: the memory that tomllib needs grows with the square of the number of dots.
    """
    if len(text) > MAX_CHARACTERS:
        raise tomllib.TOMLDecodeError(f"more than {MAX_CHARACTERS} characters")
    bare = QUOTED.sub(lambda found: "s" + "\n" * found[0].count("\n"), text)
    for long, what in ((LONG_KEY, f"a key with more than {MAX_DOTS} dots"), (LONG_NUMBER, "more than 1,000 digits")):
        if found := long.search(bare):
            line = bare.count("\n", 0, found.start()) + 1
            raise tomllib.TOMLDecodeError(f"{what} (at line {line}, column 1)")
    return tomllib.loads(text)
