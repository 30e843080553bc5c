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


def parse_toml(text: str) -> dict[str, Any]:
    """Return the document. Raises TOMLDecodeError, and RecursionError for deeply nested values.

    A text above MAX_CHARACTERS or with a key of more than MAX_DOTS dots is an error too: the memory that tomllib needs
    grows with the square of the number of dots.
    """
    if len(text) > MAX_CHARACTERS:
        raise tomllib.TOMLDecodeError(f"more than {MAX_CHARACTERS} characters")
    bare = QUOTED.sub(lambda found: "s" + "\n" * found[0].count("\n"), text)
    if found := LONG_KEY.search(bare):
        line = bare.count("\n", 0, found.start()) + 1
        raise tomllib.TOMLDecodeError(f"a key with more than {MAX_DOTS} dots (at line {line}, column 1)")
    return tomllib.loads(text)
