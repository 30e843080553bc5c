"""Parse TOML of foreign projects within limits of size and depth."""

from __future__ import annotations

import re
import tomllib
from typing import Any

MAX_CHARACTERS = 2**20
MAX_DOTS = 64
PART = r"(?:[A-Za-z0-9_-]++|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+')"
LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){PART}(?:[ \t]*+\.[ \t]*+{PART}){{{MAX_DOTS}}}")


def parse_toml(text: str) -> dict[str, Any]:
    """Return the document. Raises TOMLDecodeError, and RecursionError for deeply nested values.

    A text above MAX_CHARACTERS or with a key of more than MAX_DOTS dots is an error too: the memory that tomllib needs
    grows with the square of the number of dots.
    """
    if len(text) > MAX_CHARACTERS:
        raise tomllib.TOMLDecodeError(f"more than {MAX_CHARACTERS} characters")
    if found := LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise tomllib.TOMLDecodeError(f"a key with more than {MAX_DOTS} dots (at line {line}, column 1)")
    return tomllib.loads(text)
