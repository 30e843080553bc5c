"""Event files are pulled as complete records, append-only, whatever happens to them on the host."""

from __future__ import annotations

import os
import random
from pathlib import Path

from remote.pull.events import check_mirror, pull_events
from remote.pull.names import REPLACED
from remote.pull.report import PulledState
from tests.lab.records import pack_record
from tests.remote.pull.event_records import RECORDS


def test_event_files_are_pulled_completely_and_a_second_pull_transfers_nothing(box):
    box.events.write_bytes(b"".join(RECORDS))

    first, second = box.pull_one(), box.pull_one()

    assert box.mirrored.read_bytes() == box.events.read_bytes()
    assert (first.state, first.added_bytes) == (PulledState.WHOLE, box.events.stat().st_size)
    assert (second.state, second.added_bytes) == (PulledState.WHOLE, 0)
    assert box.mirrored.stat().st_mode & 0o777 == 0o600


def test_FI_59_cut_at_any_byte_the_mirror_is_a_prefix_of_whole_records(box):
    whole = b"".join(RECORDS)
    ends = [0]
    for record in RECORDS:
        ends.append(ends[-1] + len(record))
    seed = random.Random(59)
    cuts = sorted(seed.randrange(1, len(whole)) for _ in range(200))

    for cut in cuts:
        box.events.write_bytes(b"") if not box.events.exists() else None
        with box.events.open("ab") as file:
            file.write(whole[box.events.stat().st_size : cut])
        pulled = box.pull_one()
        local = box.mirrored.read_bytes() if box.mirrored.exists() else b""
        assert local == whole[: max(end for end in ends if end <= cut)]
        assert (pulled.state is PulledState.WHOLE) == (cut in ends)


def test_FI_60_a_shorter_file_continues_under_a_new_name_and_the_old_one_stays(box):
    box.events.write_bytes(b"".join(RECORDS))
    box.pull()
    box.events.write_bytes(b"".join(RECORDS[:3]))

    pulled = box.pull_one()

    assert pulled.path == Path(f"{box.mirrored}{REPLACED}2")
    assert pulled.path.read_bytes() == b"".join(RECORDS[:3])
    assert box.mirrored.read_bytes() == b"".join(RECORDS)
    assert box.pull_one().added_bytes == 0


def test_FI_60_another_file_of_the_same_name_continues_under_a_new_name(box):
    box.events.write_bytes(b"".join(RECORDS))
    box.pull()
    box.events.unlink()
    box.events.write_bytes(b"".join(reversed(RECORDS)))
    box.pull()
    with box.events.open("ab") as file:
        file.write(RECORDS[5])

    pulled = box.pull_one()

    assert (pulled.path.name, pulled.added_bytes) == (f"{box.events.name}{REPLACED}2", len(RECORDS[5]))
    assert pulled.path.read_bytes() == box.events.read_bytes()
    assert check_mirror(box.survey(), box.mirror).ok


def test_FI_60_a_file_replaced_by_an_empty_one_is_waited_for(box):
    box.events.write_bytes(b"".join(RECORDS))
    box.pull()
    box.events.write_bytes(b"")

    pulled = box.pull_one()

    assert (pulled.state, pulled.path) == (PulledState.WAITING, box.mirrored)
    assert box.mirrored.read_bytes() == b"".join(RECORDS)


def test_an_incomplete_record_left_by_a_kill_is_removed_and_pulled_again(box):
    box.events.write_bytes(b"".join(RECORDS))
    box.pull()
    with box.mirrored.open("r+b") as file:
        file.truncate(box.events.stat().st_size - 5)

    pulled = box.pull_one()

    assert box.mirrored.read_bytes() == box.events.read_bytes()
    assert pulled.added_bytes == len(RECORDS[-1])


def test_a_record_larger_than_a_block_is_pulled_completely(box):
    large = pack_record(os.urandom(5 * 2**20))
    box.events.write_bytes(RECORDS[0] + large + RECORDS[1])

    pulled = box.pull_one()

    assert pulled.state is PulledState.WHOLE
    assert box.mirrored.read_bytes() == box.events.read_bytes()


def test_the_mirror_is_complete_only_if_sizes_and_first_records_agree(box):
    box.events.write_bytes(RECORDS[0] + RECORDS[1])
    files = box.survey()
    assert [finding.check for finding in check_mirror(files, box.mirror).findings] == ["logs-incomplete"]
    box.pull()
    assert check_mirror(files, box.mirror).ok

    box.mirrored.write_bytes(RECORDS[2][:1] + box.mirrored.read_bytes()[1:])

    assert not check_mirror(files, box.mirror).ok


def test_any_number_of_files_comes_in_one_exchange(box):
    for number in range(50):
        box.events.with_name(f"events.out.tfevents.{number}").write_bytes(b"".join(RECORDS[:number]))
    asked = []

    class Counting:
        def fetch(self, op, args, sink, *, limit, timeout_s=60.0):
            asked.append(op)
            return box.host.fetch(op, args, sink, limit=limit, timeout_s=timeout_s)

    report = pull_events(Counting(), box.key, box.name, box.survey(), box.mirror)

    assert asked == ["events.read"]
    assert sum(file.state is PulledState.WHOLE for file in report.files) == 49
    assert check_mirror(box.survey(), box.mirror).ok
    pull_events(Counting(), box.key, box.name, [file for file in box.survey() if file.size_bytes], box.mirror)
    assert asked == ["events.read"]
