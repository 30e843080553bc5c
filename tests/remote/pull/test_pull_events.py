"""Event files come home as whole records, append-only, whatever becomes of them on the host."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from remote.payload.events import seal_events
from remote.protocol.crc32c import masked_crc32c
from remote.protocol.records import pack_record, scan_file, whole_prefix
from remote.pull.events import check_mirror, pull_events
from remote.pull.names import REPLACED
from remote.pull.report import PulledState

RECORDS = [pack_record(b"brain.Event:2 of this file"), *(pack_record(bytes([n]) * (7 * n)) for n in range(1, 60))]


def test_what_the_host_has_is_here_and_the_second_pull_brings_nothing(box):
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
        here = box.mirrored.read_bytes() if box.mirrored.exists() else b""
        assert here == whole[: max(end for end in ends if end <= cut)]
        assert (pulled.state is PulledState.WHOLE) == (cut in ends)


def test_FI_60_a_shorter_file_goes_on_under_a_new_name_and_the_old_one_stays(box):
    box.events.write_bytes(b"".join(RECORDS))
    box.pull()
    box.events.write_bytes(b"".join(RECORDS[:3]))

    pulled = box.pull_one()

    assert pulled.path == Path(f"{box.mirrored}{REPLACED}2")
    assert pulled.path.read_bytes() == b"".join(RECORDS[:3])
    assert box.mirrored.read_bytes() == b"".join(RECORDS)
    assert box.pull_one().added_bytes == 0


def test_FI_60_another_file_of_that_name_goes_on_under_a_new_name_and_grows_there(box):
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


@pytest.mark.parametrize("zeros", [1, 11, 12, 4096])
def test_FI_61_zeros_at_the_end_are_waited_for(box, zeros):
    box.events.write_bytes(b"".join(RECORDS) + bytes(zeros))

    pulled = box.pull_one()

    assert pulled.state is PulledState.WAITING
    assert "waiting" in pulled.reason
    assert box.mirrored.read_bytes() == b"".join(RECORDS)


def test_FI_61_a_record_half_written_into_preallocated_space_is_waited_for(box):
    half = RECORDS[40][:100] + bytes(len(RECORDS[40]) - 100) + bytes(500)
    box.events.write_bytes(RECORDS[0] + half)

    pulled = box.pull_one()

    assert (pulled.state, box.mirrored.read_bytes()) == (PulledState.WAITING, RECORDS[0])


def test_BI_54_a_length_of_2_to_the_63_is_skipped_with_its_reason(box):
    box.events.write_bytes((2**63).to_bytes(8, "little") + b"sums" + b"x" * 100)

    pulled = box.pull_one()

    assert pulled.state is PulledState.SKIPPED
    assert "length" in pulled.reason


def test_BI_54_a_true_sum_over_a_length_of_2_to_the_63_is_skipped_too(box):
    length = (2**63).to_bytes(8, "little")
    box.events.write_bytes(length + masked_crc32c(length).to_bytes(4, "little") + b"x" * 100)

    pulled = box.pull_one()

    assert pulled.state is PulledState.SKIPPED
    assert "64 MiB" in pulled.reason


def test_BI_54_a_damaged_first_record_is_skipped_and_a_later_one_ends_the_file(box):
    first = bytearray(RECORDS[0])
    first[-6] ^= 1
    box.events.write_bytes(bytes(first) + RECORDS[1])
    other = box.events.with_name("events.out.tfevents.2")
    other.write_bytes(RECORDS[0] + bytes(first) + RECORDS[1])

    damaged, later = box.pull().files

    assert (damaged.state, box.mirrored.exists()) == (PulledState.SKIPPED, False)
    assert (later.state, later.size_bytes) == (PulledState.DAMAGED, len(RECORDS[0]))
    assert f"at byte {len(RECORDS[0])}" in later.reason


def test_BI_54_an_empty_file_is_waited_for_and_a_folder_of_that_name_is_none(box):
    box.events.write_bytes(b"")
    box.events.with_name("events.out.tfevents.folder").mkdir()
    os.mkfifo(box.events.with_name("events.out.tfevents.fifo"))
    box.events.with_name("events.out.tfevents.link").symlink_to("/etc/passwd")

    (pulled,) = box.pull().files

    assert (pulled.state, pulled.reason) == (PulledState.WAITING, "it has no record yet")


def test_BI_54_a_file_that_became_a_folder_or_link_after_the_survey_is_skipped(box):
    for name in ("a", "b"):
        box.events.with_name(f"events.out.tfevents.{name}").write_bytes(RECORDS[0])
    files = box.survey()
    first, second = (Path(box.run, file.name) for file in files)
    first.unlink()
    first.mkdir()
    second.unlink()
    second.symlink_to("/etc/passwd")

    report = pull_events(box.host, box.key, box.name, files, box.mirror)

    assert [file.state for file in report.files] == [PulledState.SKIPPED, PulledState.SKIPPED]
    assert not [path for path in box.mirror.rglob("*tfevents*") if path.is_file()]


def test_a_folder_or_link_here_in_the_place_of_one_file_does_not_stop_the_others(box, tmp_path):
    for name in ("a", "b", "c"):
        box.events.with_name(f"events.out.tfevents.{name}").write_bytes(RECORDS[0])
    (box.mirror / "tensorboard" / "events.out.tfevents.a").mkdir(parents=True)
    secret = tmp_path / "secret"
    secret.write_bytes(b"keep me")
    (box.mirror / "tensorboard" / "events.out.tfevents.b").symlink_to(secret)

    states = [file.state for file in box.pull().files]

    assert states == [PulledState.SKIPPED, PulledState.SKIPPED, PulledState.WHOLE]
    assert secret.read_bytes() == b"keep me"


def test_a_linked_folder_in_the_mirror_is_not_written_through(box, tmp_path):
    box.events.write_bytes(RECORDS[0])
    outside = tmp_path / "outside"
    outside.mkdir()
    box.mirror.mkdir()
    (box.mirror / "tensorboard").symlink_to(outside)

    pulled = box.pull_one()

    assert pulled.state is PulledState.SKIPPED
    assert not list(outside.iterdir())


def test_a_torn_tail_left_by_a_kill_is_cut_off_and_filled_up(box):
    box.events.write_bytes(b"".join(RECORDS))
    box.pull()
    with box.mirrored.open("r+b") as file:
        file.truncate(box.events.stat().st_size - 5)

    pulled = box.pull_one()

    assert box.mirrored.read_bytes() == box.events.read_bytes()
    assert pulled.added_bytes == len(RECORDS[-1])


def test_a_record_larger_than_a_block_comes_whole(box):
    large = pack_record(os.urandom(5 * 2**20))
    box.events.write_bytes(RECORDS[0] + large + RECORDS[1])

    pulled = box.pull_one()

    assert pulled.state is PulledState.WHOLE
    assert box.mirrored.read_bytes() == box.events.read_bytes()


def test_only_the_runs_own_files_are_found(box):
    for name in ("code/runs/old", "code/runs/new", "checkpoints/runs/a"):
        path = box.run / name / "events.out.tfevents.9"
        path.parent.mkdir(parents=True)
        path.write_bytes(RECORDS[0])
    (box.run.parent.parent / "sync.json").write_text('{"rows": {"runs/old/events.out.tfevents.9": {}}}')
    (box.run / "code" / "data").symlink_to(box.run / "checkpoints")

    assert [file.name for file in box.survey()] == [
        "checkpoints/runs/a/events.out.tfevents.9",
        "code/runs/new/events.out.tfevents.9",
    ]


@pytest.mark.parametrize("named", ["{elsewhere}", "runs"])
def test_a_folder_outside_the_run_that_the_config_names_is_pulled_as_outside(box, tmp_path, named):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    old, new = elsewhere / "events.out.tfevents.3", elsewhere / "events.out.tfevents.4"
    old.write_bytes(RECORDS[0])
    os.utime(old, (1, 1))
    (box.run / "code").mkdir()
    (box.run / "code" / "runs").symlink_to(elsewhere)
    config = {"logs": {"tensorboard": named.format(elsewhere=elsewhere)}}
    (box.run / "run.json").write_text(json.dumps({"settings": {"config": config}}))
    new.write_bytes(RECORDS[0] + RECORDS[1])

    pulled = box.pull_one()

    assert pulled.name == "outside/events.out.tfevents.4"
    assert (box.mirror / pulled.name).read_bytes() == new.read_bytes()


def test_a_sealed_run_is_surveyed_from_its_index_until_a_file_changes(box):
    box.events.write_bytes(b"".join(RECORDS))
    before = box.survey()
    seal_events(str(box.run))

    assert box.survey() == before
    with box.events.open("ab") as file:
        file.write(RECORDS[1])
    assert box.survey()[0].size_bytes == box.events.stat().st_size


@pytest.mark.parametrize("index", ["", "{", "[]", '{"files": 3}', '{"files": {"tensorboard/x": 1}}'])
def test_a_damaged_index_is_no_index(box, index):
    box.events.write_bytes(RECORDS[0])
    (box.run / "events.json").write_text(index)

    assert box.survey()[0].size_bytes == len(RECORDS[0])


def test_the_mirror_is_whole_only_when_sizes_and_first_records_agree(box):
    box.events.write_bytes(RECORDS[0] + RECORDS[1])
    files = box.survey()
    assert [finding.check for finding in check_mirror(files, box.mirror).findings] == ["logs-incomplete"]
    box.pull()
    assert check_mirror(files, box.mirror).ok

    box.mirrored.write_bytes(RECORDS[2][:1] + box.mirrored.read_bytes()[1:])

    assert not check_mirror(files, box.mirror).ok


def test_the_survey_agrees_with_a_full_scan(box):
    box.events.write_bytes(b"".join(RECORDS) * 50 + RECORDS[3][:9])

    (file,) = box.survey()

    assert file.size_bytes == whole_prefix(box.events.read_bytes()).size_bytes
    with box.events.open("rb") as opened:
        assert scan_file(opened).size_bytes == file.size_bytes


def test_any_number_of_files_comes_in_one_exchange(box):
    for number in range(50):
        box.events.with_name(f"events.out.tfevents.{number}").write_bytes(b"".join(RECORDS[:number]))
    asked = []

    class Counting:
        def fetch(self, op, args, sink, *, timeout_s=60.0):
            asked.append(op)
            return box.host.fetch(op, args, sink, timeout_s=timeout_s)

    report = pull_events(Counting(), box.key, box.name, box.survey(), box.mirror)

    assert asked == ["events.read"]
    assert sum(file.state is PulledState.WHOLE for file in report.files) == 49
    assert check_mirror(box.survey(), box.mirror).ok
    pull_events(Counting(), box.key, box.name, [file for file in box.survey() if file.size_bytes], box.mirror)
    assert asked == ["events.read"]
