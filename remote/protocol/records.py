"""TFRecord framing: measure the part of an event file that consists of complete, valid records.

A record is its length (8 bytes, little-endian), the masked CRC-32C of those 8 bytes, the data, and the masked CRC-32C
of the data (tensorflow/core/lib/io/record_writer.h).
"""

from __future__ import annotations

import os
import struct
from enum import Enum
from typing import BinaryIO, Iterator, Optional, Tuple

from remote.protocol.crc32c import Buffer, masked_crc32c
from remote.protocol.dataclass import dataclass

HEADER = struct.Struct("<QI")
LENGTH = struct.Struct("<Q")
FOOTER = struct.Struct("<I")
OVERHEAD = HEADER.size + FOOTER.size
MAX_RECORD = 64 * 2**20
BLOCK = 2**20
ZERO_HEADER = bytes(HEADER.size)


class Ending(str, Enum):
    """The data after the last complete record. Only `torn` and `zeros` may become records later."""

    CLEAN = "clean"
    TORN = "torn"
    ZEROS = "zeros"
    BAD_LENGTH = "bad-length"
    TOO_LONG = "too-long"
    BAD_DATA = "bad-data"

    @property
    def damaged(self) -> bool:
        """True if no more records of the file can be read, even if the file grows."""
        return self in (Ending.BAD_LENGTH, Ending.TOO_LONG, Ending.BAD_DATA)


@dataclass(frozen=True)
class Prefix:
    """The size in bytes and the number of the leading complete records; `ending` describes the data after them."""

    size_bytes: int
    records: int
    ending: Ending


def complete_prefix(data: Buffer) -> Prefix:
    """Measure the complete, valid records at the start of `data`. `data` must begin at the start of a record."""
    view = memoryview(data)
    at = records = 0
    while at < len(view):
        ending = _judge_header(view[at : at + HEADER.size])
        if ending is not Ending.CLEAN:
            return Prefix(at, records, ending)
        end = at + OVERHEAD + LENGTH.unpack_from(view, at)[0]
        if end > len(view):
            return Prefix(at, records, Ending.TORN)
        ending = _judge_data(view[at + HEADER.size : end])
        if ending is not Ending.CLEAN:
            return Prefix(at, records, ending)
        at, records = end, records + 1
    return Prefix(at, records, Ending.CLEAN)


def split_records(data: Buffer, *, limit: int = MAX_RECORD) -> Iterator[bytes]:
    """Yield the data of each record of at most `limit` bytes.

    `data` must contain complete records. Checksums are not verified again.
    """
    view = memoryview(data)
    at = 0
    while at + OVERHEAD <= len(view):
        end = at + OVERHEAD + LENGTH.unpack_from(view, at)[0]
        if end - at <= limit + OVERHEAD:
            yield bytes(view[at + HEADER.size : end - FOOTER.size])
        at = end


def read_records(fd: int, offset: int) -> Tuple[bytes, Ending]:
    """Read about one block of complete records from `offset`. Return the records and what follows them."""
    data = os.pread(fd, BLOCK, offset)
    prefix = complete_prefix(data)
    if prefix.size_bytes == 0 and prefix.ending is Ending.TORN and len(data) >= HEADER.size:
        data = _pread_all(fd, OVERHEAD + LENGTH.unpack_from(data)[0], offset)
        prefix = complete_prefix(data)
    return data[: prefix.size_bytes], prefix.ending


def scan_file(file: BinaryIO, *, start: int = 0, check_from: Optional[int] = None) -> Prefix:
    """Measure the complete records of an open file from `start`. All lengths are verified.

    Data is verified only after the offset `check_from`, or completely if `check_from` is None. `size_bytes` of the
    result is the end of the last record in the file.
    """
    size = os.fstat(file.fileno()).st_size
    at, records = start, 0
    file.seek(at)
    while at < size:
        header = file.read(HEADER.size)
        ending = _judge_header(header)
        if ending is not Ending.CLEAN:
            return Prefix(at, records, ending)
        length = LENGTH.unpack_from(header)[0]
        end = at + OVERHEAD + length
        if end > size:
            return Prefix(at, records, Ending.TORN)
        if check_from is None or end > check_from:
            body = file.read(length + FOOTER.size)
            ending = Ending.TORN if len(body) != length + FOOTER.size else _judge_data(memoryview(body))
            if ending is not Ending.CLEAN:
                return Prefix(at, records, ending)
        else:
            file.seek(end)
        at, records = end, records + 1
    return Prefix(at, records, Ending.CLEAN)


def _pread_all(fd: int, size: int, offset: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = os.pread(fd, size - len(data), offset + len(data))
        if not chunk:
            break
        data.extend(chunk)
    return bytes(data)


def _judge_header(header: Buffer) -> Ending:
    if len(header) < HEADER.size:
        return Ending.TORN if any(header) else Ending.ZEROS
    if bytes(header) == ZERO_HEADER:
        return Ending.ZEROS
    length, crc = HEADER.unpack(header)
    if masked_crc32c(header[: LENGTH.size]) != crc:
        return Ending.BAD_LENGTH
    return Ending.TOO_LONG if length > MAX_RECORD else Ending.CLEAN


def _judge_data(body: memoryview) -> Ending:
    """Judge the data of a record. A zero checksum means that the data is still being written (preallocated space)."""
    (crc,) = FOOTER.unpack(body[-FOOTER.size :])
    if masked_crc32c(body[: -FOOTER.size]) == crc:
        return Ending.CLEAN
    return Ending.BAD_DATA if crc else Ending.ZEROS
