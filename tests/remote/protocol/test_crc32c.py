"""CRC-32C agrees with published vectors and with its definition, in one piece or many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.protocol.crc32c import LONG, POLYNOMIAL, crc32c, masked_crc32c

RFC3720_VECTORS = [
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(reversed(range(32))), 0x113FDB5C),
    (b"123456789", 0xE3069283),
    (b"", 0),
]


def by_definition(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(("data", "crc"), RFC3720_VECTORS)
def test_published_checksums_are_reproduced(data, crc):
    assert crc32c(data) == crc


@given(st.binary(max_size=200))
def test_short_data_agrees_with_the_definition(data):
    assert crc32c(data) == by_definition(data)


@given(st.binary(min_size=1, max_size=40), st.integers(LONG - 3, 3 * LONG))
def test_long_data_in_lanes_agrees_with_pieces(pattern, size):
    data = (pattern * (size // len(pattern) + 1))[:size]
    pieces = 0
    for start in range(0, size, 1000):
        pieces = crc32c(data[start : start + 1000], pieces)
    assert crc32c(data) == pieces


@given(st.binary(max_size=300), st.integers(0, 300))
def test_a_checksum_continues_where_it_stopped(data, cut):
    assert crc32c(data[cut:], crc32c(data[:cut])) == crc32c(data)


def test_masked_checksums_equal_those_that_tensorboard_writes():
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c as theirs

    for data in (b"", b"a", bytes(range(256)) * 100):
        assert masked_crc32c(data) == theirs(data)
