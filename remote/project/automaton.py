"""Match a translated glob in linear time. A regular expression may backtrack for hours on a long text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

MAX_STEPS = 1_000_000
"""The automaton is used if (length of the text) ** (number of stars) is above this limit.

Below the limit, the regular expression is faster.
"""
STARS = {"[^/]*": "[^/]", ".*": ".", ".+": "."}
"""Maps each piece that repeats a character to the piece that matches this character once."""
FOLDERS = "(?:.*/)?"
LATIN = [chr(code) for code in range(256)]


class Glob:
    """A pattern as pieces of a regular expression: single characters, STARS and FOLDERS. Texts are Latin-1."""

    def __init__(self, pieces: Iterable[str], flags: int) -> None:
        self.pieces = tuple(pieces)
        self.flags = flags
        self.regex = re.compile("".join(self.pieces) + r"\Z", flags)
        self.stars = sum(piece in STARS or piece == FOLDERS for piece in self.pieces)

    def matches(self, text: str) -> bool:
        """Return True if the pattern matches the whole text."""
        if self.stars < 2 or len(text) ** min(self.stars, 20) <= MAX_STEPS:
            return self.regex.match(text) is not None
        return self._simulate(text)

    def _simulate(self, text: str) -> bool:
        """Simulate all states in parallel. Bit n of an integer is the state before piece n."""
        step, stay, skip, skip_two, end = self._tables
        states = _close(1, skip, skip_two)
        for letter in text:
            states = _close((states & step[letter]) << 1 | states & stay[letter], skip, skip_two)
            if not states:
                return False
        return bool(states & end)

    @cached_property
    def _tables(self) -> tuple[dict[str, int], dict[str, int], int, int, int]:
        """Return the transitions as bit masks of states, and the last state.

        The masks are the states that each letter advances, the states that each letter keeps, and the states from which
        one or two states can be skipped without a letter.
        """
        step, stay = dict.fromkeys(LATIN, 0), dict.fromkeys(LATIN, 0)
        skip = skip_two = 0
        bit = 1
        for piece in self.pieces:
            if piece == FOLDERS:  # FOLDERS has two states: before a folder, and inside a folder's name.
                skip, skip_two, bit = skip | bit, skip_two | bit, bit << 1
                step["/"] |= bit
            elif piece != ".+" and piece in STARS:
                skip |= bit
            else:
                for letter in self._letters(STARS.get(piece, piece)):
                    step[letter] |= bit
            if piece in STARS or piece == FOLDERS:
                for letter in self._letters(STARS.get(piece, ".")):
                    stay[letter] |= bit
            bit <<= 1
        return step, stay, skip, skip_two, bit

    def _letters(self, piece: str) -> list[str]:
        regex = re.compile(piece, self.flags)
        return [letter for letter in LATIN if regex.fullmatch(letter)]


def _close(states: int, skip: int, skip_two: int) -> int:
    """Add the states that can be reached without reading a letter."""
    while True:
        more = states | (states & skip) << 1 | (states & skip_two) << 2
        if more == states:
            return states
        states = more
