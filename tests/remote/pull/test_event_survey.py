"""Which event files a run has, and how many of their bytes are complete records."""

from __future__ import annotations

import json
import os

import pytest

from remote.payload.output.events import write_event_index
from remote.protocol.records import complete_prefix, scan_file
from tests.remote.pull.event_records import RECORDS


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


def test_an_ended_run_is_surveyed_from_its_index_until_a_file_changes(box):
    box.events.write_bytes(b"".join(RECORDS))
    before = box.survey()
    write_event_index(str(box.run))

    assert box.survey() == before
    with box.events.open("ab") as file:
        file.write(RECORDS[1])
    assert box.survey()[0].size_bytes == box.events.stat().st_size


@pytest.mark.parametrize("index", ["", "{", "[]", '{"files": 3}', '{"files": {"tensorboard/x": 1}}'])
def test_a_damaged_index_is_ignored(box, index):
    box.events.write_bytes(RECORDS[0])
    (box.run / "events.json").write_text(index)

    assert box.survey()[0].size_bytes == len(RECORDS[0])


def test_the_survey_agrees_with_a_full_scan(box):
    box.events.write_bytes(b"".join(RECORDS) * 50 + RECORDS[3][:9])

    (file,) = box.survey()

    assert file.size_bytes == complete_prefix(box.events.read_bytes()).size_bytes
    with box.events.open("rb") as opened:
        assert scan_file(opened).size_bytes == file.size_bytes
