"""Record framing: complete records, and why the count stopped."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.protocol.records import OVERHEAD, Ending, complete_prefix, scan_file, split_records
from tests.lab.records import pack_record

BODIES = st.lists(st.binary(max_size=80), max_size=8)


@given(BODIES, st.data())
def test_after_a_cut_at_any_byte_the_complete_records_before_it_are_found(bodies, data):
    packed = [pack_record(body) for body in bodies]
    whole = b"".join(packed)
    cut = data.draw(st.integers(0, len(whole)))
    prefix = complete_prefix(whole[:cut])
    assert list(split_records(whole[: prefix.size_bytes])) == bodies[: prefix.records]
    assert whole[: prefix.size_bytes] == b"".join(packed[: prefix.records])
    assert cut - prefix.size_bytes < OVERHEAD + 80
    assert (prefix.ending is Ending.CLEAN) == (prefix.size_bytes == cut)


@given(BODIES.filter(bool), st.data())
def test_any_flipped_bit_ends_the_prefix_before_its_record(bodies, data):
    packed = [pack_record(body) for body in bodies]
    whole = bytearray(b"".join(packed))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    prefix = complete_prefix(bytes(whole))
    assert prefix.size_bytes <= at
    assert list(split_records(whole[: prefix.size_bytes])) == bodies[: prefix.records]


@given(st.binary(max_size=400))
def test_any_bytes_are_judged_without_an_error(data):
    prefix = complete_prefix(data)
    assert complete_prefix(data[: prefix.size_bytes]).ending is Ending.CLEAN


@pytest.mark.parametrize("check_from", [None, 0, 10**9])
@given(bodies=BODIES, tail=st.binary(max_size=30))
def test_a_file_gives_the_same_result_as_its_bytes(check_from, bodies, tail):
    data = b"".join(map(pack_record, bodies)) + tail
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        assert scan_file(file, check_from=check_from) == complete_prefix(data)


def test_a_scan_continues_where_another_stopped():
    with tempfile.TemporaryFile() as file:
        file.write(pack_record(b"one") + pack_record(b"two"))
        file.flush()
        assert scan_file(file, start=OVERHEAD + 3).records == 1


def test_files_of_tensorboards_own_writer_are_complete_records(tmp_path):
    from tensorboard.summary.writer.record_writer import RecordWriter

    bodies = [b"", b"x", bytes(range(256)) * 200]
    path = tmp_path / "events"
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for body in bodies:
            writer.write(body)
        writer.flush()
    assert path.read_bytes() == b"".join(map(pack_record, bodies))
