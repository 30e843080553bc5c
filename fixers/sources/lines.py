"""The lines of a file that contain certain words, found without searching the rest of the file."""

from __future__ import annotations

from collections.abc import Iterable


def lines_with(source: bytes, words: Iterable[bytes]) -> bytes:
    """Return the lines that contain one of the words, so that patterns search a few lines, not the file."""
    found: dict[int, bytes] = {}
    for word in words:
        at = source.find(word)
        while at != -1:
            start, end = source.rfind(b"\n", 0, at) + 1, source.find(b"\n", at)
            end = len(source) if end == -1 else end
            found[start] = source[start:end]
            at = source.find(word, end)
    return b"\n".join(found[start] for start in sorted(found))
