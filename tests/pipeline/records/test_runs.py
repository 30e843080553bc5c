"""A project's local records of its runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.records.find_run import find_note
from pipeline.records.last_seen import job_last_seen, note_job
from pipeline.records.layout import NOTE, Records
from pipeline.records.runs import RunNote, artifacts_in, judge_notes, read_note, recorded_runs, write_note, write_start
from pipeline.runs.start import note_of_evaluation
from remote.errors import BadUsage
from remote.protocol.gauges import Gauges, GpuUse
from remote.protocol.jobs import JobResult, JobState, Progress

ENDS = [
    (JobState.SUCCEEDED, JobResult(0)),
    (JobState.FAILED, JobResult(1)),
    (JobState.STOPPED, JobResult(143, stopped=True)),
    (JobState.LOST, None),
]


def remembered(root: Path) -> tuple[Records, Path]:
    records = Records(root)
    write_note(records, RunNote("r", "titan", "plain", "key", created_unix=1.0))
    return records, records.run("r", "titan") / NOTE


@pytest.mark.parametrize(("state", "result"), ENDS)
def test_the_record_of_an_ended_run_is_not_written_again(
    tmp_path: Path, state: JobState, result: JobResult | None
) -> None:
    _, path = remembered(tmp_path)
    note_job(path.parent, state, Progress(60, 60), result)
    before = path.stat()
    note_job(path.parent, state, Progress(60, 60), result)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    note_job(path.parent, JobState.RUNNING, Progress(61, 120))
    note = read_note(path.parent)
    assert note is not None
    assert (note.state, note.step, note.exit) == (JobState.RUNNING, 61, None)


def test_the_age_of_a_running_job_is_that_of_its_last_survey(tmp_path: Path) -> None:
    _, path = remembered(tmp_path)
    note_job(path.parent, JobState.RUNNING, Progress(1, 60))
    before = read_note(path.parent)
    note_job(path.parent, JobState.RUNNING, Progress(1, 60))
    after = read_note(path.parent)
    assert before is not None
    assert after is not None
    assert after.seen_unix > before.seen_unix


RUNS = {"plain-0011aabb": ("plain", 1.0), "plain-0022ccdd": ("plain", 2.0), "tiny-5566aabb": ("tiny", 3.0)}


def several(root: Path) -> Records:
    records = Records(root)
    for run, (config, created) in RUNS.items():
        write_note(records, RunNote(run, "titan", config, "key", created_unix=created))
    return records


@pytest.mark.parametrize(
    ("named", "run"),
    [
        (None, "tiny-5566aabb"),
        ("plain-0011aabb", "plain-0011aabb"),
        ("plain", "plain-0022ccdd"),
        ("plain-001", "plain-0011aabb"),
        ("ti", "tiny-5566aabb"),
    ],
)
def test_a_run_is_selected_by_its_id_its_config_or_a_prefix(tmp_path: Path, named: str | None, run: str) -> None:
    assert find_note(several(tmp_path), named).run == run


@pytest.mark.parametrize(
    ("named", "words", "meant"),
    [
        ("plain-00", "is ambiguous: plain-0022ccdd, plain-0011aabb", "plain-0022ccdd"),
        ("tiny-5566aabc", "has no run", "tiny-5566aabb"),
        ("xyz", "has no run", None),
        ("", "has no run", None),
    ],
)
def test_an_ambiguous_run_name_is_an_error_that_lists_the_candidates(
    tmp_path: Path, named: str, words: str, meant: str | None
) -> None:
    with pytest.raises(BadUsage, match=words) as caught:
        find_note(several(tmp_path), named)
    assert caught.value.instead == ((named, meant) if meant else None)
    assert caught.value.hint == "pipeline list"


def test_without_a_name_the_last_training_is_selected_and_no_job_of_its_adapter(tmp_path: Path) -> None:
    records = several(tmp_path)
    training = find_note(records, "plain")
    write_start(records, training)
    for verb in ("evaluate", "merge"):
        write_start(records, note_of_evaluation(training, f"{verb}-plain-0033eeff", (), verb))
    assert find_note(records, None).run == training.run
    assert find_note(records, "merge").run == "merge-plain-0033eeff", "named by the beginning of its name"


def test_a_resumed_run_keeps_its_last_progress_until_the_new_job_has_its_own(tmp_path: Path) -> None:
    records, path = remembered(tmp_path)
    note_job(path.parent, JobState.STOPPED, Progress(7, 30, 1.5, best_loss=1.2), JobResult(143, stopped=True), number=1)
    write_start(records, RunNote("r", "titan", "plain", "key", created_unix=9.0))
    note_job(path.parent, JobState.RUNNING, number=2)
    job = job_last_seen(find_note(records, None), 1e10)
    assert (job.state, job.step, job.steps, job.loss, job.best_loss) == (JobState.RUNNING, 7, 30, 1.5, 1.2)


def test_a_project_with_only_an_evaluation_has_no_default_run(tmp_path: Path) -> None:
    records = Records(tmp_path)
    write_start(records, RunNote("evaluate-a", "titan", "plain", "key", created_unix=1.0, evaluates="/adapter"))
    with pytest.raises(BadUsage, match="this project has no training runs yet"):
        find_note(records, None)


def test_an_unknown_run_is_not_invented(tmp_path: Path) -> None:
    note_job(Records(tmp_path).run("r", "titan"), JobState.RUNNING)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("written", ["", "{", "[]", '{"run": 3}'])
def test_an_unreadable_note_is_reported_and_the_others_are_listed(tmp_path: Path, written: str) -> None:
    records = several(tmp_path)
    path = records.run("plain-0022ccdd", "titan") / NOTE
    path.write_text(written)
    assert [finding.where for finding in judge_notes(recorded_runs(records))] == [str(path)]
    with pytest.raises(BadUsage, match="the record of plain-0022ccdd cannot be read") as caught:
        find_note(records, "plain-0022ccdd")
    assert caught.value.where == str(path)
    assert find_note(records, None).run == "tiny-5566aabb"
    assert find_note(records, "plain").run == "plain-0011aabb"


def test_a_project_whose_only_note_is_damaged_has_a_run(tmp_path: Path) -> None:
    records, path = remembered(tmp_path)
    path.write_text("torn")
    with pytest.raises(BadUsage, match="the record of r cannot be read"):
        find_note(records, None)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ((), None),
        (("jobs/1/output.log",), None),
        (("code/curves/events.out.tfevents.1.box",), ""),
        (("tensorboard/events.out.tfevents.1.box", "code/curves/events.out.tfevents.1.box"), "tensorboard"),
    ],
)
def test_event_files_are_found_wherever_the_script_wrote_them(
    tmp_path: Path, written: tuple[str, ...], expected: str | None
) -> None:
    _, note = remembered(tmp_path)
    for name in written:
        (note.parent / name).parent.mkdir(parents=True, exist_ok=True)
        (note.parent / name).write_bytes(b"")
    found = artifacts_in(note.parent).get("tensorboard")
    assert found == (None if expected is None else str(note.parent / expected))


def test_a_stopped_job_in_the_record_of_an_older_version_is_stopped_and_not_failed(tmp_path: Path) -> None:
    _, path = remembered(tmp_path)
    body = json.loads(path.read_bytes())
    new = {"best_loss", "started_unix", "elapsed_s", "eta_s", "gpus"}
    old = {name: value for name, value in body.items() if name not in new}
    path.write_text(json.dumps({**old, "state": "failed", "stopped": True, "exit": 143, "seen_unix": 5.0}))
    note = read_note(path.parent)
    assert note is not None
    assert (note.state, note.exit, note.gpus) == (JobState.STOPPED, 143, ())


def test_a_record_keeps_the_last_times_and_losses_of_its_job_but_no_load_of_its_gpus(tmp_path: Path) -> None:
    _, path = remembered(tmp_path)
    gauges = Gauges((GpuUse(0, 97.0),), (2.0, 1.0))
    note_job(path.parent, JobState.RUNNING, Progress(30, 60, 1.0, best_loss=0.9, pace_seconds=2.0), None, gauges, 61.0)
    running = job_last_seen(read_note(path.parent) or pytest.fail("no record"), 1e10)
    assert (running.best_loss, running.elapsed_s, running.eta_s) == (0.9, 61.0, 60.0)
    assert running.gpus == gauges.gpus
    note_job(path.parent, JobState.STOPPED, None, JobResult(143, stopped=True), gauges, 70.0)
    ended = job_last_seen(read_note(path.parent) or pytest.fail("no record"), 1e10)
    assert (ended.best_loss, ended.elapsed_s, ended.eta_s, ended.gpus) == (0.9, 70.0, None, ())


def test_the_command_that_resumes_a_run_names_it_and_that_of_an_evaluation_does_not() -> None:
    note = RunNote("r-1", "titan", "plain", "key", 1.0, given=("--set", "lora.r=8"), name="r-1")
    assert note.resume_command == "pipeline run --host titan --config plain --set lora.r=8 --resume r-1"
    assert note.start_command == "pipeline run --host titan --config plain --set lora.r=8"
    assert replace(note, evaluates="r-0").resume_command == "pipeline evaluate r-0"
