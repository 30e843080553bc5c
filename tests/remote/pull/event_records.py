"""Records of an event file: the first tells its version, each later one is longer."""

from __future__ import annotations

from remote.protocol.records import pack_record

RECORDS = [pack_record(b"brain.Event:2 of this file"), *(pack_record(bytes([n]) * (7 * n)) for n in range(1, 60))]
