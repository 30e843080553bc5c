"""The segments of a stream that carries records of many files, and the digest that identifies a file's prefix."""

from __future__ import annotations

import hashlib
import os
import struct

SEGMENT = struct.Struct(">IBQ")
"""The header of a segment: the index of the requested file, flags, and the number of bytes that follow."""

FRESH = 1
"""The flag for a file that was replaced on the host: its data starts at offset 0 again."""

TAIL_BYTES = 4096


def tail_digest(fd: int, offset: int) -> str:
    """Return the SHA-256 of up to 4096 bytes before `offset`, or "" at offset 0. Equal digests mean equal prefixes."""
    size = min(offset, TAIL_BYTES)
    if size == 0:
        return ""
    return hashlib.sha256(os.pread(fd, size, offset - size)).hexdigest()
