"""Split the pulled output of a job with several processes into one file for each rank."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from remote.protocol.layout import JobLayout
from remote.pull.folder import Folder

PREFIX = re.compile(rb"\[rank(\d{1,4})\]:")
MOST_RANKS = 256
BLOCK_BYTES = 2**20


def split_by_rank(destination: Path, job: int, host: str) -> tuple[str, ...]:
    """Write the lines of each rank to jobs/N/ranks/HOST-rankR.log under `destination`, and return these names.

    `host` is one path component. Output without torchrun's prefixes has no ranks. Raises DiskFull, PullRefused.
    """
    layout = JobLayout(f"jobs/{job}")
    sizes: dict[str, int] = {}
    with Folder(destination) as folder, folder.reading(layout.output) as fd:
        if fd is None:
            return ()
        output = os.fdopen(fd, "rb", closefd=False)
        for block in _blocks(output):
            pieces: dict[str, list[bytes]] = {}
            for rank, piece in block:
                name = f"{layout.ranks}/{host}-rank{rank}.log"
                if name in sizes or name in pieces or len(sizes) + len(pieces) < MOST_RANKS:
                    pieces.setdefault(name, []).append(piece)
            for name, texts in pieces.items():
                sizes[name] = _append(folder, name, sizes.get(name, 0), b"".join(texts))
    return tuple(sorted(sizes))


def _blocks(output: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    """Yield (rank, text) pieces of lines that have a rank's prefix, in blocks of about BLOCK_BYTES.

    A longer line is split into several pieces, since a hostile host may send a line that is as long as the largest
    file.
    """
    block: list[tuple[int, bytes]] = []
    held, begins, rank = 0, True, -1
    while line := output.readline(BLOCK_BYTES):
        match = PREFIX.match(line) if begins else None
        rank = int(match.group(1)) if match else -1 if begins else rank
        begins = line.endswith(b"\n")
        if rank >= 0:
            block.append((rank, line[match.end() :] if match else line))
        held += len(line)
        if held >= BLOCK_BYTES:
            yield block
            block, held = [], 0
    yield block


def _append(folder: Folder, name: str, offset: int, data: bytes) -> int:
    with folder.opened(name) as fd:
        if offset == 0:
            os.ftruncate(fd, 0)
        folder.append(fd, name, offset, data)
    return offset + len(data)
