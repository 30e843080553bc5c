"""Read the paths that git tracks. Tracked files belong to the project even if a pattern ignores them.

Format: git's Documentation/gitformat-index.txt, versions 2, 3 and 4, with split indexes.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

from remote.protocol.regular import read_regular

HEADER = struct.Struct(">4sII")
STAT_BYTES = 40
EXTENDED = 0x4000
MAX_INDEX = 512 * 2**20
MAX_MEMORY = 128 * 2**20
MAX_PATH = 4096
"""The maximum length of a path in Linux, in bytes. The folders above a path need memory that grows with its square."""


class IndexMemory:
    """The memory that the paths of a project's indexes may take together, in bytes.

    In memory, a path may be a thousand times longer than in an index, which stores common beginnings once.
    """

    def __init__(self) -> None:
        self._left = MAX_MEMORY

    def take(self, path: str) -> None:
        """Count the memory of a path. Raises ValueError if the paths take too much."""
        self._left -= sys.getsizeof(path)
        if self._left < 0:
            raise ValueError(f"the paths of the indexes take more than {MAX_MEMORY} bytes")


def read_index(git_folder: Path, memory: IndexMemory | None = None, *, hash_bytes: int = 20) -> frozenset[str]:
    """Return all tracked paths, in POSIX form and relative to the work tree.

    The result is empty without a readable index, and if its paths do not fit into `memory`. A submodule is one path,
    without its files. `hash_bytes` is 32 in a repository that uses SHA-256. With a split index, paths that were removed
    after the split are still returned.
    """
    try:
        memory = memory or IndexMemory()
        names, shared = _read(git_folder / "index", memory, hash_bytes)
        if shared:
            names += _read(git_folder / f"sharedindex.{shared}", memory, hash_bytes)[0]
        return frozenset(names)
    except (OSError, struct.error, IndexError, ValueError):
        return frozenset()


def _read(path: Path, memory: IndexMemory, hash_bytes: int) -> tuple[list[str], str]:
    """Return the paths in one index file, and the name of the shared index on which it is based, or ""."""
    data = read_regular(path, MAX_INDEX, follow=True)
    names, at = _parse(data, memory, hash_bytes)
    while at + 8 < len(data) - hash_bytes:
        size = int.from_bytes(data[at + 4 : at + 8], "big")
        if data[at : at + 4] == b"link":
            return names, data[at + 8 : at + 8 + hash_bytes].hex()
        at += 8 + size
    return names, ""


def _parse(data: bytes, memory: IndexMemory, hash_bytes: int) -> tuple[list[str], int]:
    """Return the paths of the entries, and the offset of the first extension."""
    signature, version, count = HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in {2, 3, 4}:
        raise ValueError("not a git index of a known version")
    to_flags = STAT_BYTES + hash_bytes
    at = HEADER.size
    name = b""
    names: list[str] = []
    for _ in range(count):
        start = at
        flags = int.from_bytes(data[at + to_flags : at + to_flags + 2], "big")
        at += to_flags + (4 if version >= 3 and flags & EXTENDED else 2)
        if version == 4:
            strip, at = _varint(data, at)
            end = data.index(b"\0", at)
            name = name[: len(name) - strip] + data[at:end]
            at = end + 1
        else:
            end = data.index(b"\0", at)
            name = data[at:end]
            at = start + ((end - start + 8) // 8) * 8
        if len(name) > MAX_PATH:
            raise ValueError(f"a path of the index has more than {MAX_PATH} bytes")
        names.append(os.fsdecode(name))
        memory.take(names[-1])
    return names, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value = byte & 0x7F
    at += 1
    while byte & 0x80:
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
        at += 1
    return value, at
