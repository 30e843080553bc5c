"""What a project remembers of its runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.records.layout import Records
from pipeline.records.runs import NOTE, RunNote, note_job, read_note, write_note
from remote.protocol.jobs import JobResult, JobState, Progress

ENDS = [(JobState.SUCCEEDED, JobResult(0)), (JobState.FAILED, JobResult(1)), (JobState.LOST, None)]


def remembered(root: Path) -> tuple[Records, Path]:
    records = Records(root)
    write_note(records, RunNote("r", "titan", "plain", "key", created_unix=1.0))
    return records, records.run("r") / NOTE


@pytest.mark.parametrize(("state", "result"), ENDS)
def test_what_has_ended_and_is_known_is_not_written_again(
    tmp_path: Path, state: JobState, result: JobResult | None
) -> None:
    records, path = remembered(tmp_path)
    note_job(records, "r", state, Progress(60, 60), result)
    before = path.stat()
    note_job(records, "r", state, Progress(60, 60), result)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    note_job(records, "r", JobState.RUNNING, Progress(61, 120))
    note = read_note(path.parent)
    assert note is not None
    assert (note.state, note.step, note.exit) == (JobState.RUNNING, 61, None)


def test_a_run_under_way_is_as_old_as_its_last_look(tmp_path: Path) -> None:
    records, path = remembered(tmp_path)
    note_job(records, "r", JobState.RUNNING, Progress(1, 60))
    before = read_note(path.parent)
    note_job(records, "r", JobState.RUNNING, Progress(1, 60))
    after = read_note(path.parent)
    assert before is not None
    assert after is not None
    assert after.seen_unix > before.seen_unix


def test_a_run_that_nobody_remembers_is_not_invented(tmp_path: Path) -> None:
    note_job(Records(tmp_path), "r", JobState.RUNNING)
    assert list(tmp_path.iterdir()) == []
