"""A script that deletes its own old checkpoints never leaves its run without one that verifies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.operations.jobs import prepare_resume, stop_job
from remote.payload.checkpoints import kept, published
from remote.protocol.jobs import JobState
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench
from tests.remote.jobs.test_checkpoints import save

NEVER = ("--until", "/never", "--step-s", 0)


def saved_at(folder: Path, unix: int) -> Path:
    """Set the times of the checkpoint and its files to that moment."""
    for path in (*folder.iterdir(), folder):
        os.utime(path, (unix, unix))
    return folder


def by_age(parent: Path) -> list[str]:
    """Return the checkpoints in the order in which transformers deletes them."""
    return [path.name for path in sorted(parent.glob("checkpoint-*"), key=os.path.getmtime)]


@pytest.mark.parametrize("record", [published.publish, published.remember_verdict])
def test_records_in_a_checkpoint_leave_it_as_old_as_it_was(tmp_path: Path, record):
    folders = [saved_at(save(tmp_path / "checkpoints", step), 1_700_000_000 + step) for step in (10, 20, 30)]
    for folder in folders:
        published.publish(str(folder))
    for folder in reversed(folders):
        record(str(folder))
    assert by_age(tmp_path / "checkpoints") == ["checkpoint-10", "checkpoint-20", "checkpoint-30"]
    assert folders[0].stat().st_mtime == 1_700_000_010


def test_times_that_an_earlier_halfstep_disturbed_are_repaired_before_a_resume(bench: Bench):
    stopped(bench, "--steps", 20, "--save-every", 10, "--output", "out", *NEVER)
    parent = Path(bench.layout.code) / "out"
    os.utime(parent / "checkpoint-10")
    prepare_resume(bench.host, PROJECT, bench.run)
    assert by_age(parent) == ["checkpoint-10", "checkpoint-20"]


def stopped(bench: Bench, *words: object, number: int = 1, **more: object) -> None:
    """Run a job until its steps are done, and stop it."""
    bench.start(*words, number=number, **more)
    last = words[words.index("--steps") + 1]
    until(lambda: any(row["step"] == last for row in bench.events("stepped")), "the last save and rotation")
    assert stop_job(bench.host, PROJECT, bench.run, grace_s=0.1).state is JobState.STOPPED


def resume(bench: Bench) -> str:
    return prepare_resume(bench.host, PROJECT, bench.run).path


def test_a_resumed_script_that_keeps_two_checkpoints_keeps_the_one_that_it_resumed_from(bench: Bench):
    words = ("--save-every", 10, "--keep", 2, "--output", "out", *NEVER)
    stopped(bench, "--steps", 20, *words)
    stopped(bench, "--steps", 30, *words, number=2, resume_from=resume(bench))
    assert [row["name"] for row in bench.events("rotated")] == ["checkpoint-10"]


@pytest.mark.parametrize("output", ["out", ""])
def test_the_checkpoint_resumed_from_is_kept_until_a_newer_one_verifies(bench: Bench, output: str):
    output = output or bench.layout.checkpoints
    words = ("--save-every", 10, "--keep", 1, "--output", output, *NEVER)
    stopped(bench, "--steps", 20, *words)
    stopped(bench, "--steps", 30, "--break-saves", *words, number=2, resume_from=resume(bench))
    assert {row["name"] for row in bench.events("rotated")} == {"checkpoint-10", "checkpoint-20"}
    assert [(row.step, row.problem == "") for row in bench.survey().checkpoints] == [(30, False), (20, True)]
    point = prepare_resume(bench.host, PROJECT, bench.run)
    assert point.path.endswith("/kept/checkpoint-20")
    stopped(bench, "--steps", 40, *words, number=3, resume_from=point.path)
    assert bench.events("begin")[-1]["resume"] == point.path
    assert os.listdir(f"{bench.layout.root}/kept") == ["checkpoint-40"], "a newer one has verified"
    assert [row.step for row in bench.survey().checkpoints] == [40], "the same files are named once"


def test_a_run_that_has_succeeded_keeps_only_what_its_script_kept(bench: Bench):
    bench.start("--steps", 20, "--save-every", 10, "--keep", 1, "--output", "out")
    until(lambda: bench.survey().result, "the end")
    assert [row.name for row in bench.survey().checkpoints] == ["code/out/checkpoint-20"]
    assert not os.path.exists(f"{bench.layout.root}/kept")


def test_a_checkpoint_that_is_deleted_while_it_is_linked_leaves_the_earlier_one(tmp_path: Path):
    first, second = (save(tmp_path / "code" / "out", step) for step in (10, 20))
    for folder in (first, second):
        published.publish(str(folder))
    kept.keep(str(tmp_path), str(first))
    (second / published.MANIFEST).unlink()
    with pytest.raises(OSError):
        kept.keep(str(tmp_path), str(second))
    assert os.listdir(tmp_path / "kept") == ["checkpoint-10"]


def test_a_corrected_script_resumes_from_a_checkpoint_of_the_old_script(bench: Bench):
    words = ("--save-every", 10, "--output", "out", *NEVER)
    stopped(bench, "--steps", 20, *words)
    offered = resume(bench)
    assert offered == f"{bench.layout.code}/out/checkpoint-20"
    stopped(bench, "--steps", 30, *words, number=2, resume_from=offered, request={"fresh_code": True})
    found = bench.events("begin")[-1]["resume"]
    assert found == offered and os.path.isdir(found)
    assert [row["step"] for row in bench.events("saved")] == [10, 20, 30]
    assert resume(bench) == f"{bench.layout.code}/out/checkpoint-30"


def test_a_corrected_script_that_fails_before_its_first_save_leaves_the_old_checkpoints(bench: Bench):
    words = ("--save-every", 10, "--output", "out")
    stopped(bench, "--steps", 20, *words, *NEVER)
    offered = resume(bench)
    bench.start("--steps", 21, "--exit", 1, *words, number=2, resume_from=offered, request={"fresh_code": True})
    until(lambda: bench.survey().result, "the end of the second job")
    assert prepare_resume(bench.host, PROJECT, bench.run).checkpoint.step == 20
