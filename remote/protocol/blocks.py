"""A byte stream in blocks: compressible data is compressed, dense data (already compressed) is stored unchanged.

A block consists of its kind (1 byte), the length of its body (4 bytes, big-endian), and the body. A `FRESH` body and
the `CODED` bodies after it form one stream of the codec, which is flushed at each block, so that small files share a
dictionary. `RAW` bodies may occur between them. A new codec stream begins when the compression level changes. The level
is chosen for each block, because the best level depends on the connection at that moment.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Callable, Dict, Iterable, Iterator, Tuple

RAW = 0
CODED = 1
FRESH = 2
HEADER = struct.Struct(">BI")
BLOCK = 256 * 1024
MAX_BODY = 2**20
UNCOMPRESSED = 0
QUICK_LEVEL = 1
SMALL_LEVEL = 6
SAMPLE = 32 * 1024


class BadStream(ValueError):
    """The data is not a stream of blocks, or it was truncated."""


class ZlibPacker:
    """Deflate, flushed at each block."""

    def __init__(self, level: int) -> None:
        self._packer = zlib.compressobj(level)

    def pack(self, data: bytes) -> bytes:
        return self._packer.compress(data) + self._packer.flush(zlib.Z_SYNC_FLUSH)


class ZlibUnpacker:
    """Inflate in pieces of at most `BLOCK` bytes, which limits the memory for any input."""

    def __init__(self) -> None:
        self._unpacker = zlib.decompressobj()

    def unpack(self, data: bytes) -> Iterator[bytes]:
        while data:
            try:
                piece = self._unpacker.decompress(data, BLOCK)
            except zlib.error as error:
                raise BadStream(f"damaged stream: {error}") from None
            if piece:
                yield piece
            elif not self._unpacker.unconsumed_tail:
                return
            data = self._unpacker.unconsumed_tail


PACKERS: Dict[str, Callable[[int], Any]] = {"zlib": ZlibPacker}
UNPACKERS: Dict[str, Callable[[], Any]] = {"zlib": ZlibUnpacker}


def is_dense(sample: bytes) -> bool:
    """Return True if compression saves less than a tenth, as for media, archives and weights.

    Short samples are not dense.
    """
    return len(sample) >= SAMPLE and len(zlib.compress(sample, 1)) > 0.9 * len(sample)


def always_quick() -> int:
    """Return the fastest compression level."""
    return QUICK_LEVEL


def pack_blocks(
    pieces: Iterable[Tuple[bytes, bool]], codec: str, level: Callable[[], int] = always_quick
) -> Iterator[bytes]:
    """Yield blocks of about `BLOCK` bytes from (data, dense) pieces, in order. Dense pieces are not compressed.

    `level` is called for each compressed block and returns its compression level.
    """
    coder = _Coder(PACKERS[codec], level)
    waiting = bytearray()
    for data, dense in pieces:
        if dense:
            yield from coder.code(waiting)
            yield from raw_blocks(data)
        else:
            waiting += data
            if len(waiting) >= BLOCK:
                yield from coder.code(waiting)
    yield from coder.code(waiting)


def raw_blocks(data: bytes) -> Iterator[bytes]:
    """Frame `data` without compression."""
    for start in range(0, len(data), MAX_BODY):
        body = data[start : start + MAX_BODY]
        yield HEADER.pack(RAW, len(body)) + body


class _Coder:
    """A series of codec streams, each with the compression level that `level` returns."""

    def __init__(self, packer: Callable[[int], Any], level: Callable[[], int]) -> None:
        self._make, self._level = packer, level
        self._current_level = UNCOMPRESSED
        self._packer: Any = None

    def code(self, buffered: bytearray) -> Iterator[bytes]:
        """Return and clear the buffered data."""
        data = bytes(buffered)
        buffered.clear()
        level = self._level() if data else UNCOMPRESSED
        if level == UNCOMPRESSED:
            yield from raw_blocks(data)
            return
        for start in range(0, len(data), MAX_BODY):
            kind = CODED
            if level != self._current_level:
                kind, self._current_level, self._packer = FRESH, level, self._make(level)
            body: bytes = self._packer.pack(data[start : start + MAX_BODY])
            yield HEADER.pack(kind, len(body)) + body


def unpack_blocks(chunks: Iterable[bytes], codec: str) -> Iterator[bytes]:
    """Yield the original data, in pieces of any size. Raises BadStream."""
    unpacker = UNPACKERS[codec]()
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        at = 0
        while len(buffer) - at >= HEADER.size:
            kind, length = HEADER.unpack_from(buffer, at)
            if kind not in (RAW, CODED, FRESH) or length > 2 * MAX_BODY:
                raise BadStream(f"a block of kind {kind} and {length} bytes is not valid")
            if len(buffer) - at - HEADER.size < length:
                break
            with memoryview(buffer) as view:
                body = bytes(view[at + HEADER.size : at + HEADER.size + length])
            at += HEADER.size + length
            if kind == RAW:
                yield body
                continue
            if kind == FRESH:
                unpacker = UNPACKERS[codec]()
            yield from unpacker.unpack(body)
        del buffer[:at]
    if buffer:
        raise BadStream(f"the stream ended {len(buffer)} bytes into a block")
