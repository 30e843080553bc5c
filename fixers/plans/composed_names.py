"""Names that code composes of text and values, as `getattr(self, f"load_{kind}")` does."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

COMPOSED = re.compile(rb"(getattr\([^\n\"']{0,200})?f?[\"'](\w*(?:(?:\{[^{}\n]*\}|%s)\w*)+|\w+(?=[\"'][ ]*\+))[\"']")
"""Matches a name that is composed of text and values, and the `getattr(` before it."""
VALUE = re.compile(rb"\{[^{}\n]*\}|%s")
SHORTEST = 4
"""The least number of letters in a composed name, outside of `getattr`. There, a private name begins with its text."""


class Composed(NamedTuple):
    """A string with values in it. `is_attribute`: an argument of `getattr`."""

    text: bytes
    is_attribute: bool

    def may_be(self, name: bytes) -> bool:
        pattern = _pattern(self)
        return pattern is not None and pattern.fullmatch(name) is not None

    def among(self, lines: bytes) -> list[bytes]:
        """Return the names that the string may be. `lines`: all names, each in a line."""
        pattern = _pattern(self)
        return [] if pattern is None else pattern.findall(lines)


def composed_in(code: bytes) -> tuple[Composed, ...]:
    return tuple(Composed(each[2], bool(each[1])) for each in COMPOSED.finditer(code))


@lru_cache(maxsize=4096)
def _pattern(composed: Composed) -> re.Pattern[bytes] | None:
    parts = VALUE.split(composed.text) if VALUE.search(composed.text) else [composed.text, b""]
    if not composed.is_attribute and sum(map(len, parts)) < SHORTEST:
        return None
    start = b"" if composed.is_attribute or parts[0] else b"(?!_)"
    first, *middle, last = map(re.escape, parts)
    # Atomic groups: the first place of a part is as good as any other, so a hostile text takes linear time.
    between = b"".join(rb"(?>\w*?%b)" % each for each in middle)
    return re.compile(rb"^%b%b%b\w*%b$" % (start, first, between, last), re.MULTILINE)
