"""Digests of local files, cached with the size, times and inode that each file had when its digest was computed."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from remote.project.digests import read_json, write_state

RECORD = ".adapter.json"
BLOCK = 2**20


def sha256_of(fd: int) -> str:
    """Return the SHA-256 of an open file."""
    digest, at = hashlib.sha256(), 0
    while chunk := os.pread(fd, BLOCK, at):
        digest.update(chunk)
        at += len(chunk)
    return digest.hexdigest()


def cache_digests(folder: Path, files: Iterable[tuple[Path, str]]) -> None:
    """Cache the digests. A cached digest is valid until size, time or inode of its file change."""
    rows = {path.relative_to(folder).as_posix(): [*_stamp(path), sha256] for path, sha256 in files}
    write_state(folder, RECORD, rows)


def digest_of(folder: Path, path: Path) -> str:
    """Return the SHA-256 of a local file.

    The cached digest is used unless size, times or inode of the file have changed.
    """
    known = _read(folder).get(path.relative_to(folder).as_posix(), [])
    if len(known) == 4 and known[:3] == _stamp(path):
        return str(known[3])
    with path.open("rb") as file:
        return sha256_of(file.fileno())


def _read(folder: Path) -> dict[str, list[Any]]:
    with contextlib.suppress(OSError, ValueError):
        rows = read_json(folder / RECORD, is_cache=True)
        if isinstance(rows, dict):
            return {name: row for name, row in rows.items() if isinstance(row, list)}
    return {}


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]
