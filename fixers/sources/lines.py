"""Search a file for words and the lines that contain them, faster than with patterns over the whole file."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import accumulate
from typing import NamedTuple

from remote.protocol.dataclass import dataclass

LONGEST_LINE_BYTES = 32 * 2**10
"""Longer lines are data: a pattern can take time that grows with the square of a line's length."""
JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
CHUNK = 2**20
LONGEST_WORD = 2**10
"""Longer words are data rather than code: they may be cut."""
MAX_WORDS = 2**17
"""A file with more distinct words is searched as a whole: its words would take more memory than the file."""
BLANKED = bytes(byte if re.match(rb"\w", bytes((byte,))) else 32 for byte in range(256))


@dataclass(frozen=True)
class LinePattern:
    """A pattern that matches within a line. Only lines that contain one of the words are searched."""

    pattern: re.Pattern[bytes]
    words: tuple[bytes, ...]

    def is_in(self, source: bytes) -> bool:
        return self.find(source) is not None

    def find(self, source: bytes) -> int | None:
        """Return the offset of the first line with a match, or None."""
        spans = line_spans(source, self.words)
        return next((start for start, end in spans if self.pattern.search(source, start, end)), None)


def too_long_line(text: bytes) -> tuple[int, int]:
    """Return the number and the length of the longest line, or (0, 0) if no line is longer than LONGEST_LINE_BYTES."""
    if len(text) <= LONGEST_LINE_BYTES:
        return 0, 0
    lengths = [len(line.removesuffix(b"\r")) for line in text.split(b"\n")]
    longest = max(lengths)
    return (lengths.index(longest) + 1, longest) if longest > LONGEST_LINE_BYTES else (0, 0)


@lru_cache(maxsize=2)
def strings_of_notebook(data: bytes) -> bytes:
    """Return the strings of a notebook's JSON text, one in a line, without those that are too long, such as pictures.

    A long string of several lines is divided at its newlines. Quotes and escapes are kept. A notebook without
    long lines is returned as it is.
    """
    if not too_long_line(data)[0]:
        return data
    strings = (found[0].replace(b"\n", b" ") for found in JSON_STRING.finditer(data))
    lines = (line for each in strings for line in (each.split(b"\\n") if len(each) > LONGEST_LINE_BYTES else (each,)))
    return b"\n".join(line for line in lines if len(line) <= LONGEST_LINE_BYTES)


def holds(source: bytes, word: bytes) -> bool:
    """Return True if the file contains the word."""
    return holds_any(source, (word,))


def holds_any(source: bytes, words: tuple[bytes, ...]) -> bool:
    """Return True if the file contains one of the words.

    For most words, only the file's set of distinct words is searched.
    """
    vocabulary = _vocabulary(source).text
    return any(map(vocabulary.__contains__, words)) or _holds_phrase(source, vocabulary, words)


def _holds_phrase(source: bytes, vocabulary: bytes, words: tuple[bytes, ...]) -> bool:
    for phrase, parts in _phrases(words):
        for part in parts:
            if part not in vocabulary:
                break
        else:
            if phrase in source:
                return True
    return False


def may_name(source: bytes, names: frozenset[bytes]) -> bool:
    """Return False if the file contains none of the names as a whole word."""
    words = _vocabulary(source).words
    return not words or not words.isdisjoint(names)


@cache
def _phrases(words: tuple[bytes, ...]) -> tuple[tuple[bytes, list[bytes]], ...]:
    """Return the texts that are not a single word, each with the words in it, longest first."""
    parts = {word: sorted(re.findall(rb"\w+", word), key=len, reverse=True) for word in words}
    return tuple((word, each) for word, each in parts.items() if each != [word])


class _Vocabulary(NamedTuple):
    """The distinct words of a file, and a text with these words.

    For a file with too many distinct words, `words` is empty and `text` is the file.
    """

    words: frozenset[bytes]
    text: bytes


@lru_cache(maxsize=4)
def _vocabulary(source: bytes) -> _Vocabulary:
    words: set[bytes] = set()
    for start in range(0, len(source), CHUNK):  # the chunks overlap, so that each word is whole in one of them
        words.update(source[start : start + CHUNK + LONGEST_WORD].translate(BLANKED).split())
        if len(words) > MAX_WORDS:
            return _Vocabulary(frozenset(), source)
    return _Vocabulary(frozenset(words), b"\n".join(words))


def in_order(text: bytes, *patterns: re.Pattern[bytes]) -> bool:
    """Return True if a line of the text matches the patterns one after the other.

    The time is linear. For one pattern with `[^\\n]*` between its parts, it grows with a power of the line's length.
    """
    return any(_matches_in_order(line, patterns) for line in text.split(b"\n"))


def _matches_in_order(line: bytes, patterns: tuple[re.Pattern[bytes], ...]) -> bool:
    at = 0
    for pattern in patterns:
        found = pattern.search(line, at)
        if found is None:
            return False
        at = found.end()
    return True


def line_starts(text: bytes) -> list[int]:
    """Return the offset of every line start."""
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    return starts if text.endswith((b"\n", b"\r")) or not text else starts[:-1]


def lines_with(source: bytes, words: tuple[bytes, ...]) -> bytes:
    """Return the lines that contain one of the words, joined by newlines."""
    return b"\n".join([source[start:end] for start, end in line_spans(source, words)])


def line_spans(source: bytes, words: tuple[bytes, ...]) -> list[tuple[int, int]]:
    """Return the ranges of the lines that contain one of the words, in file order."""
    found: dict[int, int] = {}
    for word in words:
        at = source.find(word) if holds(source, word) else -1
        while at != -1:
            start, end = source.rfind(b"\n", 0, at) + 1, source.find(b"\n", at)
            end = len(source) if end == -1 else end
            found[start] = end
            at = source.find(word, end)
    return sorted(found.items())
