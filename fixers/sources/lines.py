"""Search a file for words and the lines that contain them, faster than with patterns over the whole file."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate, repeat


@lru_cache(maxsize=512)
def holds(source: bytes, word: bytes) -> bool:
    """Return True if the file contains the word. Results are cached, because several fixers search for the same words.

    `no_cuda` and `no-cuda` are first searched with one pattern, because most files contain neither.
    """
    folded = word.replace(b"-", b"_")
    return (b"_" not in folded or _holds_folded(source, folded)) and word in source


@lru_cache(maxsize=512)
def _holds_folded(source: bytes, word: bytes) -> bool:
    return word in _folded(source)


@lru_cache(maxsize=4)
def _folded(source: bytes) -> bytes:
    return source.replace(b"-", b"_")


def holds_any(source: bytes, words: Iterable[bytes]) -> bool:
    """Return True if the file contains one of the words."""
    return any(map(holds, repeat(source), words))


def line_starts(text: bytes) -> list[int]:
    """Return the offset of every line start."""
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    return starts if text.endswith((b"\n", b"\r")) or not text else starts[:-1]


def lines_with(source: bytes, words: Iterable[bytes]) -> bytes:
    """Return the lines that contain one of the words, joined by newlines."""
    found: dict[int, bytes] = {}
    for word in words:
        at = source.find(word)
        while at != -1:
            start, end = source.rfind(b"\n", 0, at) + 1, source.find(b"\n", at)
            end = len(source) if end == -1 else end
            found[start] = source[start:end]
            at = source.find(word, end)
    return b"\n".join(found[start] for start in sorted(found))
