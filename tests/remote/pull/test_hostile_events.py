"""Invalid data and refused names in the events of a hostile host."""

from __future__ import annotations

import base64
import tracemalloc
from collections.abc import Callable, Iterator
from math import inf

import pytest

from remote.errors import PullRefused
from remote.host import Json
from remote.protocol.events import ROOTS
from remote.protocol.jobs import EventFile
from remote.pull.events import check_mirror, judge_event_names, pull_events
from remote.pull.live import follow_events
from remote.pull.names import MAX_NAMES
from remote.pull.report import PulledState
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
            yield pushed("tensorboard/events.out.tfevents.1", RECORDS[0])

    assert [new.records for new in follow_events(Repeating(), "p", "r", tmp_path / "mirror")] == [RECORDS[0]]


OWN = (
    "report.html/x.tfevents.1",
    "run.json/x.tfevents.1",
    "jobs/1/x.tfevents.1",
    "adapter/x.tfevents.1",
    "Tensorboard/x.tfevents.1",
    "tensorboard.tfevents.1",
    "x.tfevents.1",
)


def test_an_event_file_that_is_followed_has_no_place_among_the_files_of_halfstep(tmp_path):
    class Misplacing:
        def follow(self, op, args, *, timeout_s=45.0, within_s=inf):
            yield from (pushed(name, RECORDS[0]) for name in (*OWN, "tensorboard/x.tfevents.1"))

    seen = list(follow_events(Misplacing(), "p", "r", tmp_path))
    assert [new.name for new in seen] == ["tensorboard/x.tfevents.1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "tensorboard"]


def test_an_event_file_that_is_offered_has_no_place_among_the_files_of_halfstep(tmp_path):
    report = pull_events(object(), "p", "r", [EventFile(name, 20) for name in OWN], tmp_path)  # type: ignore[arg-type]
    assert [(file.name, file.state) for file in report.files] == [(name, PulledState.REFUSED) for name in OWN]
    assert list(tmp_path.iterdir()) == []
    assert check_mirror([EventFile(name, 20) for name in OWN], tmp_path).ok


@pytest.mark.parametrize("root", ROOTS)
def test_an_event_file_below_each_folder_that_the_agent_searches_is_accepted(root):
    assert judge_event_names([f"{root}/x.tfevents.1", f"{root}/a/x.tfevents.1"]).refused == ()
