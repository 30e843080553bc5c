"""SE-12: the records of runs in a cloned project fill neither the memory nor the list of runs."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.records.find_run import find_note
from pipeline.records.last_seen import note_job
from pipeline.records.layout import NOTE, Records
from pipeline.records.runs import LARGEST_NOTE, RunNote, judge_notes, read_note, recorded_runs, write_note, write_start
from remote.errors import BadUsage
from remote.protocol.gauges import Gauges, GpuUse
from remote.protocol.jobs import JobResult, JobState

MANY = 12
LIST = 2**20
FIELDS: dict[str, object] = {
    "host_config": {"a": [{}] * 9000},
    "losses": [1.5] * 9000,
    "gpus": [{"index": 1}] * 4000,
    "waits": "x" * 400_000 + "\N{GRINNING FACE}",
    "reason": "x" * 400_000,
}


def planted(records: Records, name: str, **fields: object) -> Path:
    path = records.folder / "runs" / name / NOTE
    path.parent.mkdir(parents=True)
    note = {"run": name, "host": "h", "config": "c", "project": "p", "created_unix": 1.0}
    path.write_text(json.dumps({**note, **fields}))
    os.utime(path, (1, 1))
    return path


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("field", FIELDS)
def test_SE_12_many_planted_records_take_little_memory_and_leave_the_own_run_listed(
    tmp_path: Path, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.records.runs.LARGEST_LIST", LIST)
    records = Records(tmp_path)
    for number in range(MANY):
        planted(records, f"r{number}", **{field: FIELDS[field]})
    write_start(records, RunNote("own", "titan", "plain", "key", created_unix=2.0, host_config={"host": "titan"}))
    tracemalloc.reset_peak()
    runs = recorded_runs(records)
    assert tracemalloc.get_traced_memory()[1] < 8 * LIST + LARGEST_NOTE
    assert runs.notes[0].run == "own" and find_note(records, None).host_config == {"host": "titan"}
    assert 0 < len(runs.notes) < MANY and len(runs.notes) + runs.unread == MANY + 1 and not runs.damaged
    [finding] = judge_notes(runs)
    assert finding.check == "unread-notes" and f"{runs.unread} older records" in finding.message


def test_SE_12_a_run_that_is_not_listed_is_found_by_its_exact_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.records.runs.LARGEST_LIST", LIST)
    records = Records(tmp_path)
    for number in range(MANY):
        planted(records, f"r{number}", waits=FIELDS["waits"])
    listed = {note.name for note in recorded_runs(records).notes}
    other = next(name for name in (f"r{number}" for number in range(MANY)) if name not in listed)
    assert find_note(records, other).name == other


@pytest.mark.parametrize(
    "fields",
    [{"cures": ["x" * LARGEST_NOTE]}, {"host_config": {"a": [{}] * 40_000}}, {"host": "h" * 5000}],
    ids=["bytes", "values", "name"],
)
def test_SE_12_a_record_beyond_the_limits_is_damaged(tmp_path: Path, fields: dict[str, object]) -> None:
    records = Records(tmp_path)
    path = planted(records, "large", **fields)
    assert read_note(path.parent) is None and recorded_runs(records).damaged == (path,)
    with pytest.raises(BadUsage, match="the record of large cannot be read"):
        find_note(records, "large")


def test_SE_12_the_list_shows_only_a_few_findings_of_many_damaged_records(tmp_path: Path) -> None:
    records = Records(tmp_path)
    for number in range(50):
        planted(records, f"r{number}", host=3)
    findings = judge_notes(recorded_runs(records))
    assert len(findings) == 21 and findings[-1].message == "30 more records cannot be read"


def test_SE_12_a_host_that_sends_many_values_leaves_a_readable_record(tmp_path: Path) -> None:
    records = Records(tmp_path)
    marks = {"KEY": tuple(str(number) for number in range(9000))}
    files = tuple(f"src/{number}.py" for number in range(9000))
    write_note(records, RunNote("r", "titan", "plain", "key", 1.0, rewritten=files, secret_marks=marks))
    gauges = Gauges(tuple(GpuUse(number) for number in range(9000)), (1.0,) * 500_000, tuple(range(500_000)))
    note_job(records.run("r", "titan"), JobState.RUNNING, None, JobResult(1, reason="x" * 2**21), gauges)
    note = read_note(records.run("r", "titan"))
    assert note is not None and note.loss_steps[-1] == 499_999 and len(note.losses) == len(note.loss_steps) == 1000
    assert len(note.rewritten) == 2000 and note.secret_marks["KEY"][-1] == "8999" and len(note.reason) == 4096


def test_the_record_of_a_large_real_run_is_far_below_the_limits(tmp_path: Path) -> None:
    records = Records(tmp_path)
    losses, gpus = (
        tuple(7.350267648696899 - at / 7 for at in range(64)),
        tuple(GpuUse(at, 99.0, 2**36, 2**37, 70.0) for at in range(64)),
    )
    settings = {"host": "titan", "env": {f"VARIABLE_{at}": "x" * 100 for at in range(50)}}
    files = tuple(f"src/package/module_{at}.py" for at in range(500))
    note = RunNote("r", "titan", "plain", "key", 1.0, settings, gpus=gpus, losses=losses, loss_steps=tuple(range(64)))
    write_note(records, RunNote(**{**note.__dict__, "rewritten": files}))
    path = records.run("r", "titan") / NOTE
    assert path.stat().st_size < LARGEST_NOTE / 20 and read_note(path.parent) is not None
