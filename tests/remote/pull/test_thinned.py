"""The event files of a hostile run take bounded memory and disk space; those of a long run keep their curves."""

from __future__ import annotations

import math
import struct
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise

import pytest

from remote.protocol.events import MAX_EVENT, MAX_TAG, Scalar, read_scalars
from remote.pull.log import pull_log
from remote.pull.mirror import MAX_FILE_BYTES, MAX_TOTAL_BYTES
from remote.pull.report import PulledState
from remote.pull.thinned import MAX_BROKEN, MAX_POINTS, MAX_SERIES, MAX_TOTAL, thinned
from tests.lab.records import pack_record
from tests.remote.pull.event_records import point


def series(count: int, tag: str = "loss", file: str = "a") -> Iterator[Scalar]:
    return (Scalar(tag, step, float(step), float(step), file) for step in range(count))


def test_a_short_curve_is_kept_as_it_is() -> None:
    scalars = (*series(1000), *series(10, file="b"), *series(10, "lr"))
    assert sorted(map(repr, thinned(scalars))) == sorted(map(repr, scalars))


@pytest.mark.parametrize("count", [MAX_POINTS + 1, 3 * MAX_POINTS, 5 * MAX_POINTS + 7])
def test_a_long_curve_keeps_its_span_in_even_steps(count: int) -> None:
    steps = [scalar.step for scalar in thinned(series(count))]
    assert MAX_POINTS / 2 <= len(steps) <= MAX_POINTS + 1
    assert (steps[0], steps[-1]) == (0, count - 1)
    assert len({after - before for before, after in pairwise(steps[:-1])}) == 1


def test_values_that_are_not_finite_are_not_thinned_away() -> None:
    scalars = [Scalar("loss", step, math.nan if step == 77_777 else 1.0, 0.0) for step in range(100_000)]
    assert 77_777 in {scalar.step for scalar in thinned(scalars)}
    everything = [Scalar("loss", step, math.inf, 0.0) for step in range(100_000)]
    assert len(thinned(everything)) <= MAX_POINTS + MAX_BROKEN + 1


def test_all_curves_together_are_bounded() -> None:
    kept = thinned(one for number in range(60) for one in series(9000, f"tag {number}"))
    assert len(kept) <= MAX_TOTAL + 60
    assert {scalar.tag for scalar in kept} == {f"tag {number}" for number in range(60)}


@pytest.mark.parametrize("size", [1, MAX_TAG])
def test_tags_without_end_take_little_memory(size: int) -> None:
    tracemalloc.start()
    try:
        kept = thinned(Scalar(f"{number}".ljust(size, "x"), 1, 1.0, 1.0) for number in range(20_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(kept) == MAX_SERIES
    assert peak < 20 * 2**20


def test_a_record_larger_than_any_with_scalars_is_skipped_without_a_copy() -> None:
    tag = b"\x0a" + varint(MAX_EVENT) + b"x" * MAX_EVENT + b"\x15" + struct.pack("<f", 1.0)
    summary = b"\x0a" + varint(len(tag)) + tag
    data = point(1, 0.5) + pack_record(b"\x2a" + varint(len(summary)) + summary) + point(2, 0.25)
    tracemalloc.start()
    try:
        assert [scalar.step for scalar in read_scalars(data)] == [1, 2]
        assert tracemalloc.get_traced_memory()[1] < MAX_EVENT
    finally:
        tracemalloc.stop()


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


@pytest.mark.parametrize("kind", ["events", "output"])
def test_files_of_earlier_downloads_count_towards_the_limit_of_a_run(box, kind: str) -> None:
    box.events.write_bytes(point(1, 0.5))
    box.log.write_bytes(b"hello\n")
    names = [f"{box.events.name}.{number}" if kind == "events" else f"output.log.{number}" for number in range(10)]
    paths = [box.mirror / "earlier" / name for name in names]
    paths[0].parent.mkdir(parents=True)
    for path in paths:
        with path.open("wb") as file:
            file.truncate(MAX_FILE_BYTES)
    assert MAX_FILE_BYTES * len(paths) == MAX_TOTAL_BYTES
    events, output = box.pull_one(), pull_log(box.host, box.key, box.name, 1, box.mirror)
    refused, pulled = (events, output) if kind == "events" else (output, events)
    assert refused.state is PulledState.SKIPPED and f"would exceed {MAX_TOTAL_BYTES} bytes" in refused.reason
    assert pulled.added_bytes > 0, "the other kind has a limit of its own"
    paths[0].unlink()
    events, output = box.pull_one(), pull_log(box.host, box.key, box.name, 1, box.mirror)
    assert (events if kind == "events" else output).added_bytes > 0
