"""`status` and `list` show times, losses and GPU load of a job, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.messages.as_json import job_to_json
from pipeline.messages.outcome import JobOutcome
from pipeline.records.last_seen import note_job
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note
from pipeline.show.job import job_details
from pipeline.verbs.list_runs import list_runs
from remote.protocol.gauges import Gauges, GpuUse
from remote.protocol.jobs import JobState, Progress

CARD = GpuUse(0, 97.0, 18 * 2**30, 24 * 2**30, 71.0)
JOB = JobOutcome(
    JobState.RUNNING,
    40,
    120,
    loss=0.4,
    best_loss=0.39,
    started_unix=1_763_617_290.0,
    elapsed_s=72.0,
    eta_s=144.0,
    step_s=1.8,
    gpus=(CARD,),
    losses=(1.0, 0.4),
)


def test_status_prints_what_is_known() -> None:
    assert dict(job_details(JOB, bars=True)) == {
        "mean loss": "best 0.39  █▁",
        "time": "started 2025-11-20 05:41:30 UTC, elapsed 1:12, ETA 2:24, 1.8 s/step",
        "GPU 0": "97 %, 18 GiB of 24 GiB, 71 C",
    }
    assert dict(job_details(JOB, bars=False))["mean loss"] == "best 0.39"
    assert dict(job_details(JobOutcome(JobState.ABSENT), bars=True)) == {}


def test_the_time_of_a_resumed_run_names_the_part_of_its_earlier_jobs() -> None:
    resumed = replace(JOB, elapsed_s=72.0, earlier_s=58.0)
    assert "elapsed 1:12 (0:58 in earlier jobs), ETA" in dict(job_details(resumed, bars=True))["time"]


def test_the_json_of_a_job_leaves_out_what_is_unknown() -> None:
    fields = job_to_json(JOB)
    assert (fields["best_loss"], fields["elapsed_s"], fields["eta_s"]) == (0.39, 72.0, 144.0)
    assert fields["gpus"] == [
        {
            "index": 0,
            "utilization_percent": 97.0,
            "used_bytes": 18 * 2**30,
            "total_bytes": 24 * 2**30,
            "temperature_c": 71.0,
        }
    ]
    assert job_to_json(JobOutcome(JobState.STOPPED, gpus=(GpuUse(1),)))["gpus"] == [{"index": 1}]
    assert job_to_json(JobOutcome(JobState.STOPPED)) == {"state": "stopped"}


def test_list_shows_the_job_as_last_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = Records(tmp_path)
    write_note(records, RunNote("tiny-1", "titan", "tiny", "key", created_unix=1.0))
    progress = Progress(40, 120, loss=0.4, best_loss=0.39, pace_seconds=1.8)
    note_job(records.run("tiny-1", "titan"), JobState.RUNNING, progress, None, Gauges((CARD,)), 72.0)
    monkeypatch.chdir(tmp_path)
    list_runs()
    headings, row = capsys.readouterr().out.splitlines()
    assert headings.split("  ")[0] == "run" and headings.rstrip().endswith("started")
    assert row.split()[:9] == ["tiny-1", "titan", "running", "40/120", "0.4", "0.39", "1:12", "2:24", "97"]
    list_runs(as_json=True)
    [run] = json.loads(capsys.readouterr().out)["runs"]
    assert (run["steps"], run["best_loss"], run["eta_s"], run["gpus"][0]["temperature_c"]) == (120, 0.39, 144.0, 71.0)
