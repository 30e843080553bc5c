"""Scalars are read from events as TensorBoard reads them, and every other record is skipped."""

# ruff: noqa: TID253 - the reader is compared with the official one
from __future__ import annotations

import math
import struct

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader, RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import (
    DT_BFLOAT16,
    DT_DOUBLE,
    DT_FLOAT,
    DT_HALF,
    DT_INT32,
    DT_INT64,
    DT_STRING,
)
from torch.utils.tensorboard import SummaryWriter

from remote.protocol.events import MAX_TAG, BadEvent, Scalar, parse_event, read_scalars
from remote.protocol.records import split_records
from tests.lab.records import pack_record

ONE = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
TWO = TensorShapeProto(dim=[TensorShapeProto.Dim(size=2)])
TENSORS = [
    (TensorProto(dtype=DT_FLOAT, float_val=[0.5]), 0.5),
    (TensorProto(dtype=DT_FLOAT, float_val=[0.5], tensor_shape=ONE), 0.5),
    (TensorProto(dtype=DT_DOUBLE, double_val=[0.1]), 0.1),
    (TensorProto(dtype=DT_INT32, int_val=[-7]), -7.0),
    (TensorProto(dtype=DT_INT64, int64_val=[2**40]), float(2**40)),
    (TensorProto(dtype=DT_HALF, half_val=[0x3800]), 0.5),
    (TensorProto(dtype=DT_BFLOAT16, half_val=[0x3F00]), 0.5),
    (TensorProto(dtype=DT_FLOAT, tensor_content=struct.pack("<f", -2.5)), -2.5),
    (TensorProto(dtype=DT_DOUBLE, tensor_content=struct.pack("<d", 1e300)), 1e300),
    (TensorProto(dtype=DT_BFLOAT16, tensor_content=b"\x00\x3f"), 0.5),
    (TensorProto(dtype=DT_FLOAT, float_val=[1.0, 2.0], tensor_shape=TWO), None),
    (TensorProto(dtype=DT_STRING, string_val=[b"text"]), None),
    (TensorProto(dtype=DT_FLOAT, tensor_content=b"torn"[:3]), None),
]


def event(*, tag: str = "loss", step: int = 3, **value: object) -> bytes:
    summary = Summary(value=[Summary.Value(tag=tag, **value)])
    return Event(wall_time=12.5, step=step, summary=summary).SerializeToString()


@pytest.mark.parametrize(("tensor", "expected"), TENSORS)
def test_a_tensor_with_one_element_is_read_as_a_scalar(tensor, expected):
    found = [scalar.value for scalar in parse_event(event(tensor=tensor))]
    assert found == ([] if expected is None else [expected])


@pytest.mark.parametrize("character", ["a", "\u00e9", "\U0001f600"])
def test_SE_21_a_scalar_with_a_tag_that_is_too_long_is_skipped(character: str) -> None:
    longest = character * MAX_TAG
    tags = (longest, longest + character, character * 2**19, "loss")
    data = b"".join(pack_record(event(tag=tag, simple_value=1.0)) for tag in tags)
    assert [scalar.tag for scalar in read_scalars(data)] == [longest, "loss"]


@pytest.mark.parametrize("value", [0.25, -0.0, math.inf, -math.inf, 65504.0])
def test_simple_values_are_read_bit_for_bit(value):
    assert parse_event(event(simple_value=value), "f") == (Scalar("loss", 3, value, 12.5, "f"),)


def test_nan_is_read_as_a_value():
    (scalar,) = parse_event(event(simple_value=math.nan))
    assert math.isnan(scalar.value)


@pytest.mark.parametrize("step", [0, 1, 2**31, 2**62, -1])
def test_steps_are_signed_64_bit(step):
    data = Event(step=step, summary=Summary(value=[Summary.Value(tag="a", simple_value=1.0)])).SerializeToString()
    assert parse_event(data)[0].step == step


@given(st.text(max_size=30), st.integers(-(2**63), 2**63 - 1), st.floats(width=32), st.floats())
def test_what_the_official_library_writes_is_read(tag, step, value, wall_time):
    tag = tag.encode("utf-8", "ignore").decode()
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
    data = Event(step=step, wall_time=wall_time, summary=summary).SerializeToString()
    (scalar,) = parse_event(data)
    assert (scalar.tag, scalar.step) == (tag, step)
    assert struct.pack("<fd", scalar.value, scalar.wall_time) == struct.pack("<fd", value, wall_time) or (
        math.isnan(value) or math.isnan(wall_time)
    )


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_as_an_event_or_raise_bad_event(data):
    try:
        parse_event(data)
    except BadEvent:
        pass


@given(st.data())
def test_a_damaged_event_is_skipped_and_the_next_one_is_read(data):
    bad = bytearray(event(simple_value=1.0))
    bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    found = list(read_scalars(pack_record(bytes(bad)) + pack_record(event(simple_value=2.0))))
    assert found[-1].value == 2.0


def test_a_file_of_torchs_writer_gives_the_scalars_that_tensorboard_reads(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(50):
            writer.add_scalar("train/loss", 1.0 / (step + 1), step)
            writer.add_scalar("train/scale", 65536.0, step, new_style=True)
        writer.add_scalar("double", 0.1, 7, new_style=True, double_precision=True)
        writer.add_text("prompt", "say the word")
        writer.add_histogram("weights", numpy.array([1.0, 2.0, 3.0]), 1)
    (path,) = tmp_path.iterdir()

    ours = {(s.tag, s.step): s.value for s in read_scalars(path.read_bytes())}

    theirs = {}
    for item in EventFileLoader(str(path)).Load():
        for value in item.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars" or value.tag in {"train/scale", "double"}:
                tensor = value.tensor
                number = tensor.float_val[0] if tensor.float_val else tensor.double_val[0]
                theirs[value.tag, item.step] = number
    assert ours == theirs
    assert len(ours) == 101
    assert list(split_records(path.read_bytes())) == list(RawEventFileLoader(str(path)).Load())


def test_SE_08_a_tensor_of_too_many_dimensions_is_a_bad_event():
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=2**62)] * 400_000)
    tensor = TensorProto(dtype=DT_FLOAT, tensor_shape=shape, float_val=[1.0])
    with pytest.raises(BadEvent, match="254 dimensions"):
        parse_event(event(tensor=tensor))
