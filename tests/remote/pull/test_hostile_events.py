"""Invalid data and refused names in the events of a hostile host."""

from __future__ import annotations

import base64
import tracemalloc
from collections.abc import Callable, Iterator
from math import inf

import pytest

from remote.errors import PullRefused
from remote.host import Json
from remote.pull.live import follow_events
from remote.pull.names import MAX_NAMES
from tests.lab.records import pack_record

RECORDS = [pack_record(bytes([n]) * n) for n in range(1, 200)]


def pushed(name: str, data: bytes, *, offset: int = 0, fresh: bool = False) -> Json:
    return {"name": name, "offset": offset, "fresh": fresh, "data": base64.b64encode(data).decode()}


def test_BI_53_invalid_data_from_a_hostile_host_is_ignored(tmp_path):
    good = "tensorboard/events.out.tfevents.1"

    class Hostile:
        def follow(self, op, args, *, timeout_s=45.0, within_s=inf):
            yield {"name": 3}
            yield {"name": good, "offset": "x", "data": "AA=="}
            yield {"name": good, "offset": 0, "data": "not base64"}
            yield pushed("../events.out.tfevents.1", RECORDS[0])
            yield pushed("/tmp/events.out.tfevents.1", RECORDS[0])
            yield pushed("run.json", RECORDS[0])
            yield pushed(good, RECORDS[0])
            yield pushed(good, RECORDS[1], offset=10_000)
            yield pushed(good, RECORDS[0], offset=-1)
            yield pushed(good, RECORDS[1], offset=len(RECORDS[0]))
            for other in range(50):
                yield pushed("tensorboard/events.out.tfevents.2", RECORDS[other], fresh=True)

    seen = list(follow_events(Hostile(), "p", "r", tmp_path / "mirror"))

    assert [new.records for new in seen if new.name == good] == [RECORDS[0]]
    assert (tmp_path / "mirror" / good).read_bytes() == RECORDS[0]
    assert len(seen) == 21
    assert [path.name for path in tmp_path.iterdir()] == ["mirror"]
    assert not (tmp_path / "mirror" / "run.json").exists()


class Naming:
    """A host that sends no records of more and more files."""

    def __init__(self, name: Callable[[int], str]) -> None:
        self.name, self.sent = name, 0

    def follow(self, op: str, args: Json, *, timeout_s: float = 45.0, within_s: float = inf) -> Iterator[Json]:
        for number in range(2 * MAX_NAMES):
            self.sent += 1
            yield pushed(self.name(number), b"")


@pytest.mark.parametrize(
    "name",
    [
        "{}.json".format,
        "../events.out.tfevents.{}".format,
        lambda number: f"events.out.tfevents.{number}".ljust(5_000, "x"),
        lambda number: f"{number}".ljust(5_000, "/"),
    ],
)
def test_SE_21_refused_names_are_counted_and_take_little_memory(tmp_path, name):
    host = Naming(name)
    tracemalloc.start()
    try:
        with pytest.raises(PullRefused, match="more than"):
            list(follow_events(host, "p", "r", tmp_path / "mirror"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert host.sent == MAX_NAMES + 1
    assert peak < 20 * 2**20


def test_SE_21_the_same_refused_name_is_counted_once(tmp_path):
    class Repeating:
        def follow(self, op, args, *, timeout_s=45.0, within_s=inf):
            for _ in range(MAX_NAMES + 1):
                yield pushed("run.json", RECORDS[0])
                yield pushed("x" * 2000, RECORDS[0])
            yield pushed("events.out.tfevents.1", RECORDS[0])

    assert [new.records for new in follow_events(Repeating(), "p", "r", tmp_path / "mirror")] == [RECORDS[0]]
