"""The byte stream of a sync: an index of the changes, then each file content once. One file at a time is in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import FileIO
from typing import Any

from remote.protocol.blocks import SAMPLE, is_dense
from remote.protocol.tree import Row
from remote.sync.background_packing import InFlight, pack_in_background
from remote.sync.plan import SyncPlan

CHUNK = 2**18

Opened = Callable[[str], FileIO]
"""A function that opens a file as it was scanned. Raises OSError if the file has changed."""
Progress = Callable[[int, int], None]
"""A function that is called with (bytes of files read so far, total bytes) while a stream is sent."""


def stream_plan(
    opened: Opened,
    plan: SyncPlan,
    codec: str,
    *,
    in_flight: InFlight,
    staged: Mapping[str, int] | None = None,
    progress: Progress | None = None,
) -> Iterator[bytes]:
    """Yield the stream of a plan, without the contents in `staged`, which the host already has.

    If a file has changed since its scan, or shrinks while it is sent, it is padded with zeros to its announced length,
    so that only the digest of this file is wrong.
    """
    contents = contents_of(plan, staged)
    rows = [
        *(index_row(path, row, put=True) for path, row in plan.send.items()),
        *(index_row(path, row, put=False) for path, row in plan.modes.items()),
    ]
    sized = [(digest, size) for digest, (_, size) in contents.items()]
    head = pack_head({"rows": rows, "deletes": list(plan.delete), "contents": sized})
    return pack_in_background(_pieces(opened, head, contents, progress), codec, in_flight)


def pack_head(value: Any) -> bytes:
    """Encode the beginning of a stream: the length of the index, then the index."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogateescape")
    return len(text).to_bytes(8, "big") + text


def contents_of(plan: SyncPlan, staged: Mapping[str, int] | None = None) -> dict[str, tuple[str, int]]:
    """Map each digest that must be sent to (path of a file with this content, its size), in order."""
    contents: dict[str, tuple[str, int]] = {}
    for path, row in plan.send.items():
        if not row.link and (staged or {}).get(row.source) != row.size:
            contents.setdefault(row.source, (path, row.size))
    return contents


def index_row(path: str, row: Row, *, put: bool) -> list[Any]:
    """Encode one path for the index of a stream. `put` is False if only the file's mode has changed."""
    return [path, row.source, row.mode, row.size, row.link, put]


def _pieces(
    opened: Opened, head: bytes, contents: dict[str, tuple[str, int]], progress: Progress | None
) -> Iterator[tuple[bytes, bool]]:
    yield head, False
    total, done = sum(size for _, size in contents.values()), 0
    for path, size in contents.values():
        for piece in file_pieces(partial(opened, path), size):
            yield piece
            done += len(piece[0])
            if progress is not None:
                progress(done, total)


def file_pieces(opened: Callable[[], FileIO], size: int, *, start: int = 0) -> Iterator[tuple[bytes, bool]]:
    """Yield exactly `size` bytes of a file as (piece, dense) pairs, padded with zeros if the file ends early."""
    left, dense = size, False
    try:
        with opened() as file:
            file.seek(start)
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
