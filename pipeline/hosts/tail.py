"""Keep the end of a byte stream of any length in limited memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

BLOCK_BYTES = 2**20
KEPT_BYTES = 32 * 2**20


class Tail:
    """Keeps the last `limit` bytes of a stream, and counts the lines before them."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._lines_before = 0

    def feed(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) >= 2 * self._limit:
            self._trim(len(self._kept) - self._limit)

    def end(self, lines: int | None = None) -> tuple[bytes, int]:
        """Return the last `lines` lines, including an unfinished line, and the line number of the first of them.

        Without `lines`, return all kept bytes.
        """
        self._trim(max(0, len(self._kept) - self._limit))
        at = 0 if lines is None else len(self._kept)
        for _ in range(lines or 0):
            at = self._kept.rfind(b"\n", 0, max(0, at - 1)) + 1
        return bytes(self._kept[at:]), self._lines_before + self._kept.count(b"\n", 0, at) + 1

    def text(self, lines: int | None = None) -> tuple[str, int]:
        """Return the result of `end`, decoded as UTF-8."""
        data, first = self.end(lines)
        return data.decode("utf-8", "replace"), first

    def utf16(self) -> tuple[str, int]:
        """Return all kept bytes, decoded as UTF-16, which PowerShell writes, and the number of the first line."""
        data, _ = self.end()
        return data.decode("utf-16-le", "replace").removeprefix("\ufeff"), self._lines_before + 1

    def _trim(self, excess: int) -> None:
        self._lines_before += self._kept.count(b"\n", 0, excess)
        del self._kept[:excess]


def blocks_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a file, at most BLOCK_BYTES at a time."""
    while block := file.read(BLOCK_BYTES):
        yield block


def tail_of(file: BinaryIO, limit: int = KEPT_BYTES) -> Tail:
    """Read a file to its end, and return its tail."""
    tail = Tail(limit)
    for block in blocks_of(file):
        tail.feed(block)
    return tail
