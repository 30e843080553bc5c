"""Apply edits of byte ranges. Each edit contains the bytes that it replaces."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from remote.protocol.dataclass import dataclass


class EditRefused(Exception):
    """The edits cannot be applied, and nothing was changed. `offset` is the position of the conflict."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


@dataclass(frozen=True)
class Edit:
    """Replaces `data[start : start + len(expected)]`.

    If `expected` is empty, the edit inserts. `why` is shown to the user.
    """

    start: int
    expected: bytes
    replacement: bytes
    why: str

    @property
    def end(self) -> int:
        return self.start + len(self.expected)


def splice(data: bytes, edits: Iterable[Edit]) -> bytes:
    """Return `data` with all edits applied. Raises EditRefused if `expected` does not match or edits overlap."""
    parts: list[bytes] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < done:
            raise EditRefused(f"two edits overlap ({edit.why})", edit.start)
        if data[edit.start : edit.end] != edit.expected:
            raise EditRefused(f"expected {edit.expected[:60]!r} at this position ({edit.why})", edit.start)
        parts += (data[done : edit.start], edit.replacement)
        done = edit.end
    parts.append(data[done:])
    return b"".join(parts)


def line_of(data: bytes, offset: int) -> int:
    """Return the line of `offset`, counted from 1. Lines end at CRLF, CR or LF."""
    before = data[:offset]
    return 1 + before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n")


def newline_of(data: bytes) -> bytes:
    """Return the line ending for inserted lines: the file's first line ending, or LF."""
    end = min((at for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0), default=-1)
    if end < 0:
        return b"\n"
    return b"\r\n" if data[end : end + 2] == b"\r\n" else data[end : end + 1]


@lru_cache(maxsize=1)
def text_of(data: bytes) -> str:
    """Decode a file once for all of its lines that are scanned one by one."""
    return data.decode("latin-1")
