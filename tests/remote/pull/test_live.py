"""Followed records arrive as they are written, each byte once, over any connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from math import inf

import pytest

from remote.errors import AuthRefused, CannotConnect, ConnectionLost
from remote.host import Json
from remote.protocol.events import read_scalars
from remote.pull.live import follow_events, mirrored_scalars, tail_scalars
from remote.pull.log import follow_log
from remote.pull.reconnect import RetryPolicy, follow_on
from tests.lab.records import pack_record
from tests.lab.wait import until
from tests.remote.pull.event_records import point

RECORDS = [pack_record(bytes([n]) * n) for n in range(1, 200)]


class Unsteady:
    """A host whose connection is lost after every few messages; following continues at the requested offset."""

    def __init__(self, box, after: int) -> None:
        self._box, self._after, self.lost = box, after, 0

    def follow(self, op: str, args: Json, *, timeout_s: float = 45.0, within_s: float = inf) -> Iterator[Json]:
        for count, event in enumerate(self._box.host.follow(op, args, timeout_s=timeout_s)):
            if count == self._after:
                self.lost += 1
                raise ConnectionLost("cut")
            yield event


def writing(write: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=write)
    thread.start()
    return thread


def test_records_are_pulled_as_they_are_written_until_the_job_ends(box):
    box.events.write_bytes(RECORDS[0])
    seen = []

    def write() -> None:
        for number, record in enumerate(RECORDS[1:], start=1):
            with box.events.open("ab") as file:
                file.write(record[: len(record) // 2])
                file.flush()
                file.write(record[len(record) // 2 :])
            if number % 40 == 0:
                until(lambda number=number: len(b"".join(seen)) >= len(b"".join(RECORDS[:number])))
        box.end_job()

    writer = writing(write)
    for new in follow_events(box.host, box.key, box.name, box.mirror, job=1):
        assert new.path == box.mirrored
        assert box.mirrored.read_bytes().endswith(new.records)
        seen.append(new.records)
    writer.join()
    assert b"".join(seen) == box.mirrored.read_bytes() == b"".join(RECORDS)


def test_FI_59_repeated_connection_losses_lose_and_repeat_no_byte(box):
    box.events.write_bytes(b"")
    unsteady = Unsteady(box, after=1)
    waits = []
    retry = RetryPolicy(sleep=waits.append)
    seen = []

    def write() -> None:
        for record in RECORDS[:25]:
            before = len(seen)
            with box.events.open("ab") as file:
                file.write(record)
            until(lambda before=before: len(seen) > before)
        box.end_job()

    writer = writing(write)
    for new in follow_events(unsteady, box.key, box.name, box.mirror, job=1, retry=retry):
        seen.append(new.records)
    writer.join()
    assert unsteady.lost > 10
    assert b"".join(seen) == b"".join(RECORDS[:25]) == box.mirrored.read_bytes()


def test_FI_60_a_file_replaced_while_it_is_followed_continues_under_a_new_name(box):
    box.events.write_bytes(b"".join(RECORDS[:5]))
    paths = []
    following = follow_events(box.host, box.key, box.name, box.mirror, job=1)
    paths.append(next(following).path)
    box.events.unlink()
    box.events.write_bytes(RECORDS[7])
    paths.append(next(following).path)
    box.end_job()
    assert list(following) == []
    assert [path.name for path in paths] == [box.events.name, f"{box.events.name}.replaced-2"]
    assert paths[0].read_bytes() == b"".join(RECORDS[:5])
    assert paths[1].read_bytes() == RECORDS[7]


def test_a_new_file_in_a_new_folder_is_followed_too(box):
    box.events.write_bytes(RECORDS[0])
    following = follow_events(box.host, box.key, box.name, box.mirror, job=1)
    next(following)
    other = box.run / "code" / "runs" / "today" / "events.out.tfevents.2"
    other.parent.mkdir(parents=True)
    other.write_bytes(RECORDS[1])
    assert next(following).name == "code/runs/today/events.out.tfevents.2"
    following.close()


def test_local_scalars_come_first_then_those_of_the_host(box):
    box.events.write_bytes(point(1, 4.0) + point(2, 3.0))
    box.pull()
    with box.events.open("ab") as file:
        file.write(point(3, 2.0))
    box.end_job()

    batches = tail_scalars(box.host, box.key, box.name, box.mirror, job=1)
    found = [(s.tag, s.step, s.value) for batch in batches for s in batch]

    assert found == [("loss", 1, 4.0), ("loss", 2, 3.0), ("loss", 3, 2.0)]
    assert len(list(mirrored_scalars(box.mirror))) == 3
    assert next(iter(read_scalars(box.mirrored.read_bytes()))).value == 4.0


def test_scalars_written_before_that_time_are_left_out_even_if_they_were_never_pulled(box):
    box.events.write_bytes(point(1, 4.0, wall_time=100.0) + point(2, 3.0, wall_time=200.0))
    box.end_job()
    batches = tail_scalars(box.host, box.key, box.name, box.mirror, job=1, since_unix=150.0)
    assert [scalar.step for batch in batches for scalar in batch] == [2]
    assert len(list(mirrored_scalars(box.mirror))) == 2, "both are pulled"


def test_two_followers_of_one_mirror_produce_the_same_files(box):
    box.events.write_bytes(b"".join(RECORDS[:50]))
    one = follow_events(box.host, box.key, box.name, box.mirror, job=1)
    two = follow_events(box.host, box.key, box.name, box.mirror, job=1)
    got = [next(one).records]
    with box.events.open("ab") as file:
        file.write(b"".join(RECORDS[50:]))
    box.end_job()
    got += [new.records for new in two]
    got += [new.records for new in one]
    assert b"".join(got) == box.mirrored.read_bytes() == b"".join(RECORDS)


def test_output_is_followed_from_its_last_lines_and_after_a_lost_connection(box):
    box.log.write_bytes(b"".join(b"line %d\n" % n for n in range(100)))
    unsteady = Unsteady(box, after=1)
    seen = []

    def write() -> None:
        for number in range(100, 112):
            before = len(seen)
            with box.log.open("ab") as file:
                file.write(b"line %d\n" % number)
            until(lambda before=before: len(seen) > before)
        box.end_job()

    writer = threading.Thread(target=write)
    for piece in follow_log(unsteady, box.key, box.name, job=1, lines=2, retry=RetryPolicy(sleep=lambda _: None)):
        seen.append(piece)
        if len(seen) == 1:
            writer.start()
    writer.join()
    assert unsteady.lost > 3
    assert b"".join(seen) == b"".join(b"line %d\n" % n for n in range(98, 112))


def test_following_a_job_that_has_ended_returns_everything_at_once(box):
    box.log.write_bytes(b"x" * 3_000_000)
    box.end_job()
    assert b"".join(follow_log(box.host, box.key, box.name)) == b"x" * 3_000_000


def test_waits_double_and_the_last_error_is_raised_after_the_last_try(box):
    class Gone:
        def follow(self, op, args, *, timeout_s=45.0, within_s=inf):
            raise ConnectionLost("cut")
            yield

    waits, messages = [], []
    retry = RetryPolicy(
        0.5, 3.0, tries=5, sleep=waits.append, on_lost=lambda error, wait: messages.append(error.message)
    )
    with pytest.raises(ConnectionLost):
        list(follow_on(Gone(), "follow.log", dict, retry))
    assert waits == [0.5, 1.0, 2.0, 3.0]
    assert messages == ["cut"] * 4


def test_only_a_host_that_was_reached_before_is_waited_for():
    class Reached:
        def __init__(self, times: int) -> None:
            self.times = times

        def follow(self, op, args, *, timeout_s=45.0, within_s=inf):
            if not self.times:
                raise CannotConnect("refused")
            self.times -= 1
            yield {"data": ""}
            raise ConnectionLost("cut")

    waits = []
    retry = RetryPolicy(0.5, tries=4, sleep=waits.append)
    with pytest.raises(CannotConnect):
        list(follow_on(Reached(0), "follow.log", dict, retry))
    assert waits == []
    with pytest.raises(CannotConnect):
        list(follow_on(Reached(1), "follow.log", dict, retry))
    assert waits == [0.5, 1.0, 2.0]


def test_a_refused_key_is_not_tried_again():
    class Locked:
        def follow(self, op, args, *, timeout_s=45.0, within_s=inf):
            raise AuthRefused("no")
            yield

    with pytest.raises(AuthRefused):
        list(follow_on(Locked(), "follow.log", dict, RetryPolicy(sleep=lambda _: pytest.fail("waited"))))
