"""How whole records of many files travel as one stream, and how both sides know that they speak of the same file."""

from __future__ import annotations

import hashlib
import os
import struct

SEGMENT = struct.Struct(">IBQ")
"""Index of the file in what was wanted, flags, and how many bytes of records follow."""

FRESH = 1
"""The file on the host is not the one that was had: it begins anew, at offset 0."""

TAIL_BYTES = 4096


def tail_digest(fd: int, offset: int) -> str:
    """SHA-256 of the up to 4096 bytes before `offset`; empty at the beginning. Equal digests mean: the same file."""
    size = min(offset, TAIL_BYTES)
    if size == 0:
        return ""
    return hashlib.sha256(os.pread(fd, size, offset - size)).hexdigest()
