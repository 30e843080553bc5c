"""Read the scalars of a TensorBoard event from the protocol-buffer wire format. Other fields of an event are skipped.

Field numbers: tensorflow/core/util/event.proto, summary.proto, tensor.proto, tensor_shape.proto.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import Iterator, List, Optional, Tuple, Union

from remote.protocol.crc32c import Buffer
from remote.protocol.dataclass import dataclass
from remote.protocol.hidden import without_hidden
from remote.protocol.records import split_records

MARK = "tfevents"
OUTSIDE = "outside"
ROOTS = ("tensorboard", "checkpoints", "code", OUTSIDE)
"""The folders of a run whose event files a host offers. OUTSIDE is the folder `logs.tensorboard` of the config, if this
folder is not in the run's folder."""

Value = Union[int, bytes]
Field = Tuple[int, int, Value]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
DTYPES = {
    1: "<f",
    2: "<d",
    3: "<i",
    4: "<B",
    5: "<h",
    6: "<b",
    9: "<q",
    10: "<?",
    17: "<H",
    19: "<e",
    22: "<I",
    23: "<Q",
}
DT_BFLOAT16 = 14
PACKED = {5: "<f", 6: "<d"}
INTEGERS = (7, 10, 11, 16, 17)
HALF_BITS = 13


class BadEvent(ValueError):
    """The data of a record is not a protocol buffer."""


@dataclass(frozen=True)
class Scalar:
    """One point of one curve. `file` is the event file's name relative to the run's folder.

    Hidden values in `tag` are replaced.
    """

    tag: str
    step: int
    value: float
    wall_time: float
    file: str = ""


def read_scalars(data: Buffer, file: str = "") -> Iterator[Scalar]:
    """Yield the scalars of complete records, in order.

    Skips records that are not events, records of more than MAX_EVENT bytes, such as images and sounds, and scalars
    whose tag has more than MAX_TAG characters.
    """
    for record in split_records(data, limit=MAX_EVENT):
        try:
            yield from parse_event(record, file)
        except BadEvent:
            continue


MAX_RANK = 254
"""The largest number of dimensions that a TensorFlow tensor can have."""
MAX_POINTS = 100_000
MAX_EVENT = 4 * 2**20
MAX_TAG = 500
"""The maximum number of characters of a tag. Whoever reads scalars keeps their tags in memory."""


def parse_event(record: bytes, file: str = "") -> Tuple[Scalar, ...]:
    """Parse the scalars of one event, except those with a tag of more than MAX_TAG characters. Raises BadEvent."""
    wall_time, step = 0.0, 0
    summaries: List[bytes] = []
    for number, wire, value in _fields(record):
        if number == 1 and wire == FIXED64:
            (wall_time,) = struct.unpack("<d", _bytes(value))
        elif number == 2 and wire == VARINT:
            step = _signed(value)
        elif number == 5 and wire == BYTES:
            summaries.append(_bytes(value))
    points = list(islice((point for summary in summaries for point in _summary(summary)), MAX_POINTS + 1))
    if len(points) > MAX_POINTS:
        raise BadEvent(f"an event of more than {MAX_POINTS} scalars")
    return tuple(Scalar(without_hidden(tag), step, value, wall_time, file) for tag, value in points)


def _summary(data: bytes) -> Iterator[Tuple[str, float]]:
    for number, wire, value in _fields(data):
        if number == 1 and wire == BYTES:
            point = _summary_value(_bytes(value))
            if point is not None:
                yield point


def _summary_value(data: bytes) -> Optional[Tuple[str, float]]:
    name, result = b"", None
    for number, wire, value in _fields(data):
        if number == 1 and wire == BYTES:
            name = _bytes(value)
        elif number == 2 and wire == FIXED32:
            (result,) = struct.unpack("<f", _bytes(value))
        elif number == 8 and wire == BYTES:
            result = _tensor(_bytes(value))
    tag = name[: 4 * MAX_TAG + 1].decode("utf-8", "replace")  # a character has at most 4 bytes
    return None if result is None or len(tag) > MAX_TAG else (tag, result)


def _tensor(data: bytes) -> Optional[float]:
    """Return the number in a tensor with one element, or None for any other tensor."""
    dtype, content = 0, b""
    numbers: List[float] = []
    for number, wire, value in _fields(data):
        if number == 1 and wire == VARINT:
            dtype = _signed(value)
        elif number == 2 and wire == BYTES:
            if _elements(_bytes(value)) != 1:
                return None
        elif number == 4 and wire == BYTES:
            content = _bytes(value)
        else:
            numbers.extend(islice(_numbers(number, wire, value, dtype), 2))
            if len(numbers) > 1:
                return None
    if content:
        return _content(content, dtype)
    return numbers[0] if len(numbers) == 1 else None


def _content(content: bytes, dtype: int) -> Optional[float]:
    if dtype == DT_BFLOAT16 and len(content) == 2:
        return _half(int.from_bytes(content, "little"), dtype)
    form = DTYPES.get(dtype)
    if form is None or struct.calcsize(form) != len(content):
        return None
    return float(struct.unpack(form, content)[0])


def _numbers(number: int, wire: int, value: Value, dtype: int) -> Iterator[float]:
    """Yield the values of a repeated field, packed or not."""
    if number in PACKED and wire in (BYTES, FIXED32, FIXED64):
        data = _bytes(value)
        if len(data) % struct.calcsize(PACKED[number]):
            raise BadEvent("a packed field of broken length")
        yield from (item[0] for item in struct.iter_unpack(PACKED[number], data))
    elif number in INTEGERS or number == HALF_BITS:
        values = iter([_signed(value)]) if wire == VARINT else _varints(_bytes(value))
        yield from (float(item) if number != HALF_BITS else _half(item, dtype) for item in values)


def _half(bits: int, dtype: int) -> float:
    """Decode a 16-bit pattern as bfloat16 (the upper half of a float32) or as IEEE half."""
    bits &= 0xFFFF
    if dtype == DT_BFLOAT16:
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    return float(struct.unpack("<e", struct.pack("<H", bits))[0])


def _elements(shape: bytes) -> int:
    count, rank = 1, 0
    for number, wire, dimension in _fields(shape):
        if number == 2 and wire == BYTES:
            rank += 1
            if rank > MAX_RANK:
                raise BadEvent(f"a tensor of more than {MAX_RANK} dimensions")
            sizes = [_signed(v) for n, w, v in _fields(_bytes(dimension)) if n == 1 and w == VARINT]
            count *= sizes[-1] if sizes else 0
    return count


def _fields(data: bytes) -> Iterator[Field]:
    """Yield number, wire type and value (bytes, or int for varints) of every field of a message. Raises BadEvent."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            number_value, at = _varint(data, at)
            yield number, wire, number_value
            continue
        if wire == BYTES:
            size, at = _varint(data, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise BadEvent(f"wire type {wire}")
        if at + size > len(data):
            raise BadEvent("a field runs past the end")
        yield number, wire, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    result = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise BadEvent("a number runs past the end")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, at
    raise BadEvent("a number of more than ten bytes")


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield _signed(value)


def _signed(value: Value) -> int:
    """Convert a varint to the int64 that it encodes."""
    assert isinstance(value, int)
    return value - 2**64 if value >= 2**63 else value


def _bytes(value: Value) -> bytes:
    assert isinstance(value, bytes)
    return value
