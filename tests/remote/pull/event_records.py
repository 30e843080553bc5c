"""Event files made of valid records, and of scalars."""

from __future__ import annotations

import struct

from tests.lab.records import pack_record

RECORDS = [pack_record(b"brain.Event:2 of this file"), *(pack_record(bytes([n]) * (7 * n)) for n in range(1, 60))]

TAG_LOSS = b"\x0a\x04loss"


def point(step: int, value: float, wall_time: float = 1.0) -> bytes:
    """Return a TensorBoard event of one scalar, encoded by hand: wall time, step, summary with tag and value."""
    value_message = TAG_LOSS + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(value_message)]) + value_message
    event = b"\x09" + struct.pack("<d", wall_time) + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary
    return pack_record(event)
