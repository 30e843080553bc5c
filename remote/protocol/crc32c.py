"""CRC-32C (Castagnoli), the checksum of TFRecord files, with the standard library only.

Short data is processed eight bytes at a time with tables. Long data is divided into lanes. Each step processes one byte
of every lane: `bytes.translate` does the table look-up of all lanes, and an XOR of big integers combines the results.
The checksums of the lanes are then combined as in zlib's crc32_combine. Polynomial and reflection: RFC 3720, appendix
B.4.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import List, Tuple, Union

Buffer = Union[bytes, bytearray, memoryview]

POLYNOMIAL = 0x82F63B78
LANES = 512
LONG = 16 * LANES
_EIGHT = struct.Struct("<IBBBB")


def _byte_table() -> List[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


def _slices() -> Tuple[List[int], ...]:
    tables = [_byte_table()]
    for _ in range(7):
        tables.append([tables[0][crc & 0xFF] ^ (crc >> 8) for crc in tables[-1]])
    return tuple(tables)


_T0, _T1, _T2, _T3, _T4, _T5, _T6, _T7 = _slices()
_PLANES = tuple(bytes((crc >> shift) & 0xFF for crc in _T0) for shift in (0, 8, 16, 24))


def crc32c(data: Buffer, crc: int = 0) -> int:
    """Return the CRC-32C of `data`. `crc` is the checksum of the data before it."""
    view = memoryview(data)
    state = crc ^ 0xFFFFFFFF
    if len(view) >= LONG:
        length = len(view) // LANES
        state = _advance_lanes(state, view[: length * LANES], length)
        view = view[length * LANES :]
    return _advance(state, view) ^ 0xFFFFFFFF


def masked_crc32c(data: Buffer) -> int:
    """Return the checksum as TFRecord stores it: rotated by 15 bits and offset (tensorflow/core/lib/hash/crc32c.h)."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _advance(state: int, view: memoryview) -> int:
    whole = len(view) & ~7
    for word, b4, b5, b6, b7 in _EIGHT.iter_unpack(view[:whole]):
        mixed = state ^ word
        state = (
            _T7[mixed & 0xFF]
            ^ _T6[(mixed >> 8) & 0xFF]
            ^ _T5[(mixed >> 16) & 0xFF]
            ^ _T4[mixed >> 24]
            ^ _T3[b4]
            ^ _T2[b5]
            ^ _T1[b6]
            ^ _T0[b7]
        )
    for byte in view[whole:]:
        state = _T0[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state


def _advance_lanes(state: int, view: memoryview, length: int) -> int:
    """Return `state` after LANES lanes of `length` bytes each.

    A CRC is linear, so the checksum of each lane starts at 0.
    """
    data = bytes(view)
    low = low_mid = high_mid = high = 0
    for position in range(length):
        index = (low ^ int.from_bytes(data[position::length], "little")).to_bytes(LANES, "little")
        low = low_mid ^ int.from_bytes(index.translate(_PLANES[0]), "little")
        low_mid = high_mid ^ int.from_bytes(index.translate(_PLANES[1]), "little")
        high_mid = high ^ int.from_bytes(index.translate(_PLANES[2]), "little")
        high = int.from_bytes(index.translate(_PLANES[3]), "little")
    planes = [plane.to_bytes(LANES, "little") for plane in (low, low_mid, high_mid, high)]
    z0, z1, z2, z3 = _zeros(length)
    for b0, b1, b2, b3 in zip(*planes):
        state = z0[state & 0xFF] ^ z1[(state >> 8) & 0xFF] ^ z2[(state >> 16) & 0xFF] ^ z3[state >> 24]
        state ^= b0 | (b1 << 8) | (b2 << 16) | (b3 << 24)
    return state


@lru_cache(maxsize=64)
def _zeros(length: int) -> Tuple[List[int], ...]:
    """Return four tables, one for each byte of a state: the effect of `length` appended zero bytes."""
    columns = _zero_matrix(length)
    tables = []
    for shift in (0, 8, 16, 24):
        table = [0] * 256
        for byte in range(1, 256):
            lowest = byte & -byte
            table[byte] = table[byte ^ lowest] ^ columns[shift + lowest.bit_length() - 1]
        tables.append(table)
    return tuple(tables)


def _zero_matrix(length: int) -> List[int]:
    """Return the linear map of `length` appended zero bytes, as the images of the 32 bits of a state.

    Uses repeated squaring.
    """
    result = [1 << bit for bit in range(32)]
    power = [_T0[(1 << bit) & 0xFF] ^ ((1 << bit) >> 8) for bit in range(32)]
    while length:
        if length & 1:
            result = [_apply(power, column) for column in result]
        power = [_apply(power, column) for column in power]
        length >>= 1
    return result


def _apply(matrix: List[int], vector: int) -> int:
    image = 0
    while vector:
        lowest = vector & -vector
        image ^= matrix[lowest.bit_length() - 1]
        vector ^= lowest
    return image
