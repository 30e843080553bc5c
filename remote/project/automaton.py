"""Match texts with all translated globs of an ignore file at once, in a time that is linear in the text."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

ANY = 2**256 - 1
SLASH = 1 << ord("/")
STARS = {"[^/]*": ANY & ~SLASH, ".*": ANY, ".+": ANY}
"""Maps each piece that repeats a character to the set of these characters."""
FOLDERS = "(?:.*/)?"
Piece = int | str
"""A set of characters, as the bits of a number, of which one is matched; or one of STARS, or FOLDERS."""
MOST_BYTES = 2**23
"""The size of the remembered steps at which they are forgotten."""
Bits = dict[int, "array[int]"]
"""Maps a set of characters to the states to which it belongs."""


class _State:
    """A set of states as the bits of an integer, and what follows each letter. `last`: see `Globs.last_match`."""

    __slots__ = ("after", "bits", "last")

    def __init__(self, bits: int, last: int) -> None:
        self.bits = bits
        self.last = last
        self.after: dict[str, _State] = {}


class Globs:
    """Numbered patterns, each as pieces: sets of characters, STARS and FOLDERS.

    Texts are Latin-1. Bit n is the state before piece n, where the end of each pattern counts as a piece. All states
    are simulated in parallel, because a regular expression would backtrack. Steps are remembered: most texts begin
    alike.
    """

    def __init__(self, patterns: Iterable[tuple[int, Iterable[Piece]]]) -> None:
        self._advancing: Bits = {}
        self._staying: Bits = {}
        self._skipping, self._skipping_two = array("L"), array("L")
        starts = array("L")
        self._numbers: dict[int, int] = {}
        self._size = 0
        for number, pieces in patterns:
            starts.append(self._size)
            for piece in pieces:
                self._add(piece)
            self._numbers[self._size] = number
            self._size += 1
        self._skip, self._skip_two = self._mask(self._skipping), self._mask(self._skipping_two)
        self._ends = self._mask(self._numbers)
        self._letters: dict[str, tuple[int, int]] = {}
        self._known: dict[int, _State] = {}
        self._used = 0
        self._first = self._state(self._mask(starts))

    def last_match(self, text: str) -> int:
        """Return the highest number of the patterns that match the whole text, or -1."""
        state = self._first
        for letter in text:
            state = state.after.get(letter) or self._step(state, letter)
            if not state.bits:
                break
        return state.last

    def _add(self, piece: Piece) -> None:
        """Add the states of a piece: the states that a letter advances or keeps, or that may be skipped."""
        if piece == FOLDERS:  # FOLDERS has two states: before a folder, and inside a folder's name.
            self._skipping.append(self._size)
            self._skipping_two.append(self._size)
            self._size += 1
            self._advancing.setdefault(SLASH, array("L")).append(self._size)
            self._staying.setdefault(ANY, array("L")).append(self._size)
        elif isinstance(piece, str):
            self._staying.setdefault(STARS[piece], array("L")).append(self._size)
            bits = self._advancing.setdefault(STARS[piece], array("L")) if piece == ".+" else self._skipping
            bits.append(self._size)
        else:
            self._advancing.setdefault(piece, array("L")).append(self._size)
        self._size += 1

    def _step(self, state: _State, letter: str) -> _State:
        self._used += 100 + self._size // 8
        if self._used > MOST_BYTES:
            self._forget()
        if letter not in self._letters:
            self._letters[letter] = self._of(letter, self._advancing), self._of(letter, self._staying)
        step, stay = self._letters[letter]
        after = state.after[letter] = self._state((state.bits & step) << 1 | state.bits & stay)
        return after

    def _forget(self) -> None:
        for state in self._known.values():
            state.after.clear()
        self._known = {self._first.bits: self._first}
        self._used = 0

    def _state(self, bits: int) -> _State:
        """Return the state with the states that can be reached without reading a letter."""
        more = 0
        while more != bits:
            more, bits = bits, bits | (bits & self._skip) << 1 | (bits & self._skip_two) << 2
        if bits not in self._known:
            ended = (bits & self._ends).bit_length() - 1
            self._known[bits] = _State(bits, self._numbers.get(ended, -1))
        return self._known[bits]

    def _of(self, letter: str, bits: Bits) -> int:
        code = ord(letter)
        found = (own for letters, own in bits.items() if letters >> code & 1)
        return self._mask(bit for own in found for bit in own)

    def _mask(self, bits: Iterable[int]) -> int:
        mask = bytearray(self._size // 8 + 1)
        for bit in bits:
            mask[bit >> 3] |= 1 << (bit & 7)
        return int.from_bytes(mask, "little")
