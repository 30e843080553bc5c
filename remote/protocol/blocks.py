"""A byte stream in blocks: what compresses goes through one codec, what does not goes as it is.

A block is its kind (1 byte), the length of its body (4 bytes, big-endian), and the body. All `CODED` bodies together
are one stream of the codec, flushed at each block, so that small files share a dictionary; `RAW` bodies lie between.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Callable, Dict, Iterable, Iterator, Tuple

RAW = 0
CODED = 1
HEADER = struct.Struct(">BI")
BLOCK = 256 * 1024
MAX_BODY = 2**20
LEVEL = 1
SAMPLE = 32 * 1024


class BadStream(ValueError):
    """What came is not a stream of ours, or it was torn."""


class ZlibPacker:
    """Deflate, flushed at each block."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(LEVEL)

    def pack(self, data: bytes) -> bytes:
        return self._packer.compress(data) + self._packer.flush(zlib.Z_SYNC_FLUSH)


class ZlibUnpacker:
    """The other end; memory is bounded by `BLOCK` whatever comes."""

    def __init__(self) -> None:
        self._unpacker = zlib.decompressobj()

    def unpack(self, data: bytes) -> Iterator[bytes]:
        while data:
            try:
                piece = self._unpacker.decompress(data, BLOCK)
            except zlib.error as error:
                raise BadStream(f"torn stream: {error}") from None
            if piece:
                yield piece
            elif not self._unpacker.unconsumed_tail:
                return
            data = self._unpacker.unconsumed_tail


PACKERS: Dict[str, Callable[[], Any]] = {"zlib": ZlibPacker}
UNPACKERS: Dict[str, Callable[[], Any]] = {"zlib": ZlibUnpacker}


def is_dense(sample: bytes) -> bool:
    """Compressing would save less than a tenth: media, archives, weights. A short sample is never dense."""
    return len(sample) >= SAMPLE and len(zlib.compress(sample, 1)) > 0.9 * len(sample)


def pack_blocks(pieces: Iterable[Tuple[bytes, bool]], codec: str) -> Iterator[bytes]:
    """Blocks of about `BLOCK` bytes from (data, dense) pieces, in order; dense ones are not compressed."""
    packer = PACKERS[codec]()
    waiting = bytearray()
    for data, dense in pieces:
        if dense and waiting:
            yield _coded(packer, waiting)
        if dense:
            for start in range(0, len(data), MAX_BODY):
                body = data[start : start + MAX_BODY]
                yield HEADER.pack(RAW, len(body)) + body
        else:
            waiting += data
            if len(waiting) >= BLOCK:
                yield _coded(packer, waiting)
    if waiting:
        yield _coded(packer, waiting)


def _coded(packer: Any, waiting: bytearray) -> bytes:
    body: bytes = packer.pack(bytes(waiting))
    waiting.clear()
    return HEADER.pack(CODED, len(body)) + body


def unpack_blocks(chunks: Iterable[bytes], codec: str) -> Iterator[bytes]:
    """The pieces again, cut differently. Raises BadStream."""
    unpacker = UNPACKERS[codec]()
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        at = 0
        while len(buffer) - at >= HEADER.size:
            kind, length = HEADER.unpack_from(buffer, at)
            if kind not in (RAW, CODED) or length > 2 * MAX_BODY:
                raise BadStream(f"a block of kind {kind} and {length} bytes is none of ours")
            if len(buffer) - at - HEADER.size < length:
                break
            body = bytes(buffer[at + HEADER.size : at + HEADER.size + length])
            at += HEADER.size + length
            if kind == RAW:
                yield body
            else:
                yield from unpacker.unpack(body)
        del buffer[:at]
    if buffer:
        raise BadStream(f"the stream ended {len(buffer)} bytes into a block")
