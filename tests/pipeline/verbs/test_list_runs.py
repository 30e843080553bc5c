"""`list` shows runs from local records, without a connection."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.records.last_seen import note_job
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note
from pipeline.show.columns import fitting_columns
from pipeline.verbs.list_runs import OPTIONAL, list_runs
from remote.protocol.jobs import JobState, Progress


def test_a_run_whose_start_was_interrupted_is_not_reported_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = Records(tmp_path)
    for name, created in (("cut", 2.0), ("seen", 1.0)):
        write_note(records, RunNote(name, "titan", "plain", "key", created_unix=created))
    note_job(records.run("seen", "titan"), JobState.RUNNING, Progress(7, 60))
    monkeypatch.chdir(tmp_path)
    list_runs(as_json=True)
    cut, seen = json.loads(capsys.readouterr().out)["runs"]
    assert (cut["run"], "state" in cut, "step" in cut) == ("cut", False, False)
    assert (seen["state"], seen["step"]) == ("running", 7)
    list_runs(as_json=False)
    _, first, second = (line.split() for line in capsys.readouterr().out.splitlines())
    assert (first[:5], second[:4]) == (["cut", "titan", "not", "seen", "yet"], ["seen", "titan", "running", "7/60"])


def test_a_run_that_waits_for_another_is_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records, waits = Records(tmp_path), "waits for first to end"
    write_note(records, RunNote("second", "titan", "plain", "key", created_unix=1.0))
    note_job(records.run("second", "titan"), JobState.RUNNING, number=1, waits=waits)
    monkeypatch.chdir(tmp_path)
    list_runs()
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["second", "titan", "queued"]
    list_runs(as_json=True)
    [row] = json.loads(capsys.readouterr().out)["runs"]
    assert (row["state"], row["waits"]) == ("queued", waits)
    note_job(records.run("second", "titan"), JobState.RUNNING, Progress(1, 60), number=1)
    list_runs(as_json=True)
    [row] = json.loads(capsys.readouterr().out)["runs"]
    assert (row["state"], row["step"], "waits" in row) == ("running", 1, False)


@pytest.mark.parametrize(
    ("state", "waits", "age_s", "words"),
    [
        (JobState.RUNNING, "", 5, "running"),
        (JobState.RUNNING, "", 16 * 60, "running 16 min ago"),
        (JobState.RUNNING, "waits for first to end", 3 * 3600, "queued 3 h ago"),
        (JobState.SUCCEEDED, "", 16 * 60, "succeeded"),
    ],
)
def test_a_state_that_may_have_changed_is_listed_with_its_age(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: JobState,
    waits: str,
    age_s: float,
    words: str,
) -> None:
    note = RunNote("w-4738c84c", "titan", "plain", "key", created_unix=1.0, step=7, steps=2494, elapsed_s=10.0)
    seen = replace(note, state=state, waits=waits, seen_unix=time.time() - age_s)
    write_note(Records(tmp_path), seen)
    monkeypatch.chdir(tmp_path)
    list_runs()
    heading, row = capsys.readouterr().out.splitlines()
    at = heading.index("last seen")
    assert row[at : heading.index("step")].strip() == words


def test_the_age_of_a_running_job_fits_a_terminal_of_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    note = RunNote(
        "speech-4738c84c", "titan-rtx", "plain", "key", created_unix=time.time() - 90_000, step=70, steps=2494
    )
    write_note(Records(tmp_path), replace(note, state=JobState.RUNNING, seen_unix=time.time() - 86_000, loss=1.25))
    monkeypatch.chdir(tmp_path)
    list_runs()
    headings, row = (re.split(" {2,}", line) for line in capsys.readouterr().out.splitlines())
    kept, [cells] = fitting_columns(headings, [row], OPTIONAL, 80)
    assert "running 24 h ago" in cells and {"step", "loss", "started"} <= set(kept)
    assert len("  ".join(cells)) <= 80


def test_a_row_has_no_value_that_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = Records(tmp_path)
    write_note(records, RunNote("stopped", "titan", "plain", "key", created_unix=1.0))
    note_job(records.run("stopped", "titan"), JobState.STOPPED, number=1)
    monkeypatch.chdir(tmp_path)
    list_runs(as_json=True)
    [row] = json.loads(capsys.readouterr().out)["runs"]
    assert (row["state"], None in row.values()) == ("stopped", False)


def test_the_overrides_of_a_run_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = Records(tmp_path)
    rate, rank = "train.learning_rate=1e-4", "train.rank=8"
    write_note(records, RunNote("a", "titan", "plain", "key", created_unix=3.0, given=("--set", rate)))
    note = RunNote("b", "titan", "plain", "key", created_unix=2.0, given=("--set", rate, "--set", rank), varied=(rank,))
    write_note(records, note)
    write_note(records, RunNote("c", "titan", "plain", "key", created_unix=1.0))
    monkeypatch.chdir(tmp_path)
    list_runs(as_json=True)
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert [row.get("set") for row in rows] == [[rate], [rank, rate], None]
    list_runs()
    heading, first, *_ = capsys.readouterr().out.splitlines()
    assert heading.split()[:2] == ["run", "set"] and first.split()[:2] == ["a", rate]


def test_a_table_has_no_column_without_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_note(Records(tmp_path), RunNote("a", "titan", "plain", "key", created_unix=1.0))
    monkeypatch.chdir(tmp_path)
    list_runs()
    assert capsys.readouterr().out.splitlines()[0].split() == ["run", "host", "last", "seen", "step", "started"]
