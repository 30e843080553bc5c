"""The compression level follows the speed of the connection, and the content is the same at each level."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from remote.protocol.blocks import BLOCK, HEADER, QUICK_LEVEL, SMALL_LEVEL, pack_blocks, unpack_blocks
from remote.sync.background_packing import BUSY_BYTES, DEPTH, PackingThread, pack_in_background

CODE = b"x = load(audio, 16_000)\n" * (2 * BLOCK // 24)
DEADLINE_S = 60.0


def pieces(count: int) -> Iterator[tuple[bytes, bool]]:
    yield from ((CODE, False) for _ in range(count))


def blocks_over(in_flight: Callable[[], int | None], count: int = 2 * DEPTH) -> list[bytes]:
    return list(pack_in_background(pieces(count), "zlib", in_flight))


@pytest.mark.parametrize("in_flight", [None, 0, BUSY_BYTES // 2, BUSY_BYTES + 1])
def test_the_bytes_are_the_same_over_every_connection(in_flight):
    assert b"".join(unpack_blocks(blocks_over(lambda: in_flight), "zlib")) == CODE * 2 * DEPTH


@pytest.mark.parametrize("in_flight", [None, BUSY_BYTES // 2, BUSY_BYTES + 1])
def test_a_slow_or_unknown_connection_gets_compressed_blocks(in_flight):
    assert all(len(block) < len(CODE) // 10 for block in blocks_over(lambda: in_flight))


def test_a_fast_connection_gets_uncompressed_blocks_once_it_has_delivered():
    blocks = blocks_over(lambda: 0)
    assert len(blocks[0]) < len(CODE) // 10
    assert blocks[-1][HEADER.size :] == CODE


def test_a_connection_does_not_count_as_fast_before_a_block_was_written():
    ahead = PackingThread(lambda: 0)
    stream = ahead.run(iter([b"one", b"two"]))
    next(stream)
    assert ahead.level() == QUICK_LEVEL
    next(stream)
    assert ahead.level() == 0
    stream.close()


def test_a_congested_connection_gets_compressed_blocks_until_it_has_delivered_all():
    flying = [0]
    ahead = PackingThread(lambda: flying[0])
    list(ahead.run(iter([b"one"])))
    levels = []
    for flying[0] in (0, BUSY_BYTES, BUSY_BYTES + 1, BUSY_BYTES // 2, 0):
        levels.append(ahead.level())
    assert levels == [0, 0, QUICK_LEVEL, QUICK_LEVEL, 0]


def test_blocks_are_compressed_harder_if_they_queue_on_the_laptop():
    made = threading.Semaphore(0)
    flying = BUSY_BYTES + 1

    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk
            made.release()

    ahead = PackingThread(lambda: flying)
    levels: list[int] = []

    def level() -> int:
        levels.append(ahead.level())
        return levels[-1]

    stream = ahead.run(counted(pack_blocks(pieces(2 * DEPTH), "zlib", level)))
    next(stream)
    for _ in range(DEPTH + 1):
        assert made.acquire(timeout=DEADLINE_S)
    stream.close()
    assert levels[0] == QUICK_LEVEL
    assert levels[-1] == SMALL_LEVEL
