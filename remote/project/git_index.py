"""Which paths git tracks: those are the project's even where a pattern ignores them.

Format: git's Documentation/gitformat-index.txt, versions 2, 3 and 4.
"""

from __future__ import annotations

import struct
from pathlib import Path

HEADER = struct.Struct(">4sII")
FIXED = 62
EXTENDED = 0x4000
MAX_INDEX = 512 * 2**20


def find_repository(root: Path) -> tuple[Path, Path] | None:
    """(work tree, git folder) of the repository that `root` lies in, if it lies in one."""
    for folder in (root, *root.parents):
        dot_git = folder / ".git"
        if dot_git.is_dir():
            return folder, dot_git
        if dot_git.is_file():
            return folder, (folder / dot_git.read_text("utf-8").removeprefix("gitdir:").strip()).resolve()
    return None


def tracked_paths(git_folder: Path) -> frozenset[str]:
    """Every path of the index, as POSIX text relative to the work tree; none where the index cannot be read."""
    try:
        path = git_folder / "index"
        if path.stat().st_size > MAX_INDEX:
            return frozenset()
        return frozenset(_parse(path.read_bytes()))
    except (OSError, struct.error, IndexError, ValueError):
        return frozenset()


def _parse(data: bytes) -> list[str]:
    signature, version, count = HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in {2, 3, 4}:
        raise ValueError("not a git index of a known version")
    at = HEADER.size
    name = b""
    names: list[str] = []
    for _ in range(count):
        start = at
        flags = int.from_bytes(data[at + 60 : at + 62], "big")
        at += FIXED + (2 if version >= 3 and flags & EXTENDED else 0)
        if version == 4:
            strip, at = _varint(data, at)
            end = data.index(b"\0", at)
            name = name[: len(name) - strip] + data[at:end]
            at = end + 1
        else:
            end = data.index(b"\0", at)
            name = data[at:end]
            at = start + ((end - start + 8) // 8) * 8
        names.append(name.decode("utf-8", "surrogateescape"))
    return names


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value = byte & 0x7F
    at += 1
    while byte & 0x80:
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
        at += 1
    return value, at
