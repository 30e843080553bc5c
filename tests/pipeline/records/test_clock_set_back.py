"""SE-21: runs are ordered by a counter of starts, so a clock that was set back changes neither order nor ages."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.records.find_run import find_note
from pipeline.records.last_seen import job_last_seen
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, list_notes, read_note, write_note, write_start
from remote.protocol.jobs import JobState
from remote.protocol.quantities import duration

NOW = 1_700_000_000.0
HOUR = 3600.0


def note(run: str, created_unix: float) -> RunNote:
    return RunNote(run, "rig", run.partition("-")[0], "p-1", created_unix)


@pytest.mark.parametrize("clock", [NOW + 60, NOW, NOW - HOUR])
def test_SE_21_the_run_that_was_started_last_is_the_newest_whatever_the_clock_says(
    tmp_path: Path, clock: float
) -> None:
    records = Records(tmp_path)
    write_start(records, note("old-00000001", NOW))
    write_start(records, note("new-00000002", clock))
    assert find_note(records, None).run == "new-00000002"
    write_start(records, note("old-00000001", clock - HOUR))
    assert [one.run for one in list_notes(records)] == ["old-00000001", "new-00000002"]
    write_note(records, note("new-00000002", clock + HOUR))
    assert find_note(records, None).run == "old-00000001", "a look at a run is no start"


def test_SE_21_no_age_is_negative(tmp_path: Path) -> None:
    records = Records(tmp_path)
    seen = RunNote("a-00000001", "rig", "a", "p-1", NOW, state=JobState.RUNNING, seen_unix=NOW)
    write_note(records, seen)
    found = read_note(records.run("a-00000001", "rig"))
    assert found is not None
    assert job_last_seen(found, NOW - HOUR).age_s == 0.0
    assert duration(-3566.9) == "0.0 s"
