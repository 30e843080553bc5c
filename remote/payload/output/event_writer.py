"""Write scalars to a TensorBoard event file with the standard library only.

Field numbers: tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import Mapping, Optional

from remote.protocol.crc32c import masked_crc32c
from remote.protocol.events import BYTES, FIXED32, FIXED64, MARK, VARINT
from remote.protocol.records import FOOTER, LENGTH

VERSION = b"brain.Event:2"


class EventWriter:
    """Appends scalars to a new event file in `folder`. The folder is created with the first scalar."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path: Optional[str] = None

    def add(self, step: int, scalars: Mapping[str, float], wall_time: float) -> None:
        """Append one record with all `scalars` of a step. Raises OSError if the file cannot be written."""
        data = b""
        if self._path is None:
            os.makedirs(self._folder, exist_ok=True)
            name = f"events.out.{MARK}.{int(wall_time):010d}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
            self._path = os.path.join(self._folder, name)
            data = frame(_fixed64(1, wall_time) + _message(3, VERSION))
        summary = b"".join(_message(1, _message(1, tag.encode()) + _fixed32(2, v)) for tag, v in scalars.items())
        data += frame(_fixed64(1, wall_time) + _key(2, VARINT) + _varint(step) + _message(5, summary))
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)


def frame(record: bytes) -> bytes:
    """Return the record with its length and checksums, in the format that remote/protocol/records.py reads."""
    length = LENGTH.pack(len(record))
    return length + FOOTER.pack(masked_crc32c(length)) + record + FOOTER.pack(masked_crc32c(record))


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _message(number: int, data: bytes) -> bytes:
    return _key(number, BYTES) + _varint(len(data)) + data


def _fixed64(number: int, value: float) -> bytes:
    return _key(number, FIXED64) + struct.pack("<d", value)


def _fixed32(number: int, value: float) -> bytes:
    return _key(number, FIXED32) + struct.pack("<f", value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
