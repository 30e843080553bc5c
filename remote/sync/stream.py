"""One sync as one byte stream: an index of what is meant, then each content once; a file at a time is in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from remote.protocol.blocks import is_dense, pack_blocks
from remote.protocol.tree import Row
from remote.sync.plan import SyncPlan

CHUNK = 2**18
SAMPLE = 2**15

Progress = Callable[[int, int], None]
"""Told (bytes of files read so far, bytes in all) while a stream goes out."""


def stream_plan(
    root: Path, plan: SyncPlan, codec: str, *, staged: Collection[str] = (), progress: Progress | None = None
) -> Iterator[bytes]:
    """The stream of a plan. Contents in `staged` are on the host already. A file that shrinks meanwhile is filled with
    zeros to the length that was promised, so that the host finds its digest wrong and nothing else."""
    contents = contents_of(plan, staged)
    index = {
        "rows": [
            *(_index_row(path, row, put=True) for path, row in plan.send.items()),
            *(_index_row(path, row, put=False) for path, row in plan.modes.items()),
        ],
        "deletes": list(plan.delete),
        "contents": [[digest, size] for digest, (_, size) in contents.items()],
    }
    return pack_blocks(_pieces(root, index, contents, progress), codec)


def contents_of(plan: SyncPlan, staged: Collection[str] = ()) -> dict[str, tuple[str, int]]:
    """Digest to (a path that has it, size), in order, each once."""
    contents: dict[str, tuple[str, int]] = {}
    for path, row in plan.send.items():
        if not row.link and row.here not in staged:
            contents.setdefault(row.here, (path, row.size))
    return contents


def _index_row(path: str, row: Row, *, put: bool) -> list[Any]:
    return [path, row.here, row.mode, row.size, row.link, put]


def _pieces(
    root: Path, index: Any, contents: dict[str, tuple[str, int]], progress: Progress | None
) -> Iterator[tuple[bytes, bool]]:
    head = json.dumps(index, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogateescape")
    yield len(head).to_bytes(8, "big") + head, False
    total, done = sum(size for _, size in contents.values()), 0
    for path, size in contents.values():
        for piece in _file_pieces(root / path, size):
            yield piece
            done += len(piece[0])
            if progress is not None:
                progress(done, total)


def _file_pieces(path: Path, size: int) -> Iterator[tuple[bytes, bool]]:
    left, dense = size, False
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while left and (data := file.read(min(left, CHUNK))):
                if left == size:
                    dense = is_dense(data[:SAMPLE])
                left -= len(data)
                yield data, dense
    except OSError:
        pass
    while left:
        zeros = bytes(min(left, CHUNK))
        left -= len(zeros)
        yield zeros, False
