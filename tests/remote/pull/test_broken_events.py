"""Unfinished event files are waited for; damaged or invalid ones are skipped with a reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.protocol.crc32c import masked_crc32c
from remote.pull.events import pull_events
from remote.pull.report import PulledState
from tests.remote.pull.event_records import RECORDS


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


def test_BI_54_an_empty_file_is_waited_for_and_a_folder_of_that_name_is_ignored(box):
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


def test_a_local_folder_or_link_in_place_of_one_file_does_not_stop_the_others(box, tmp_path):
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
