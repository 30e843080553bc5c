"""The segments in which records of many files form one stream, and the digest that identifies a file's prefix."""

from __future__ import annotations

import hashlib
import os
import struct

SEGMENT = struct.Struct(">IBQ")
"""The index of the requested file, flags, and the number of bytes that follow."""

FRESH = 1
"""The file on the host was replaced, so it starts over at offset 0."""

TAIL_BYTES = 4096


def tail_digest(fd: int, offset: int) -> str:
    """Return the SHA-256 of up to 4096 bytes before `offset`, or "" at 0. Equal digests mean the same file."""
    size = min(offset, TAIL_BYTES)
    if size == 0:
        return ""
    return hashlib.sha256(os.pread(fd, size, offset - size)).hexdigest()
