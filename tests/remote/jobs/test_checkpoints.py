"""A trainer checkpoint counts as verified only if every digest matches."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remote.errors import RemoteFault
from remote.operations.jobs import prepare_resume
from remote.payload.checkpoints import published
from remote.payload.checkpoints.files import MANIFEST, BrokenCheckpoint, judge_file, judge_random_states, read_step
from remote.protocol.exits import ExitCode
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, TRAINER, Bench

FILES = (
    "adapter_model.safetensors",
    "adapter_config.json",
    "optimizer.pt",
    "scheduler.pt",
    "scaler.pt",
    "rng_state.pth",
    "trainer_state.json",
)


def save(parent: Path, step: int) -> Path:
    """Save a checkpoint with the fake trainer, in the order of the real one."""
    code = f"import sys; sys.argv = ['x']; import fake_trainer as t; t.save({str(parent)!r}, {step})"
    parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "HALFSTEP_RUN_DIR": str(parent.parent), "PYTHONPATH": str(TRAINER.parent)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return parent / f"checkpoint-{step}"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with two published checkpoints, of steps 5 and 10."""
    for step in (5, 10):
        published.publish(str(save(tmp_path / "checkpoints", step)))
    return tmp_path


def zero(path: Path) -> None:
    path.write_bytes(b"")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    """Flip one bit near the end of a file and keep its size and times, so that only the digest differs."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[-4] ^= 1
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("damage", [zero, truncate, flip, os.unlink])
@pytest.mark.parametrize("name", FILES)
def test_FI_56_FI_57_a_damaged_file_is_named_and_the_previous_checkpoint_is_used(run: Path, name: str, damage):
    damage(run / "checkpoints" / "checkpoint-10" / name)
    problem = published.verify(str(run / "checkpoints" / "checkpoint-10"))
    assert problem.startswith(name), problem
    assert published.newest_verified(str(run)).step == 5


@pytest.mark.parametrize("damage", [zero, truncate, os.unlink])
@pytest.mark.parametrize("name", FILES)
def test_FI_56_FI_57_a_save_that_was_damaged_before_its_manifest_is_never_published(tmp_path: Path, name: str, damage):
    published.publish(str(save(tmp_path / "checkpoints", 5)))
    folder = save(tmp_path / "checkpoints", 10)
    damage(folder / name)
    with pytest.raises(BrokenCheckpoint, match=name.replace("adapter_model.safetensors", "safetensors")):
        published.publish(str(folder))
    assert not (folder / MANIFEST).exists()


def test_a_flipped_bit_in_a_zip_is_found_before_the_manifest_too(tmp_path: Path):
    folder = save(tmp_path / "checkpoints", 10)
    path = folder / "optimizer.pt"
    data = bytearray(path.read_bytes())
    data[data.index(b"optimizer")] ^= 1
    path.write_bytes(data)
    with pytest.raises(BrokenCheckpoint, match=r"optimizer\.pt"):
        published.publish(str(folder))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / MANIFEST).unlink(), "interrupted"),
        (lambda folder: (folder / MANIFEST).write_bytes((folder / MANIFEST).read_bytes()[:200]), "damaged"),
        (lambda folder: zero(folder / MANIFEST), "damaged"),
        (lambda folder: folder.rename(folder.with_name("checkpoint-11")), "has step 10"),
        (lambda folder: _claim_version(folder, 99), "version 99"),
        (lambda folder: _forget(folder, "optimizer.pt"), "optimizer.pt is missing"),
        (lambda folder: _forget(folder, "scaler.pt"), "scaler.pt is missing"),
    ],
)
def test_a_manifest_that_differs_from_the_files_is_rejected(run: Path, change, words: str):
    change(run / "checkpoints" / "checkpoint-10")
    rows = published.survey_checkpoints(str(run), digests=True)
    assert words in rows[0].problem
    assert rows[1].problem == ""


def _claim_version(folder: Path, version: int) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "version": version}))


def _forget(folder: Path, name: str) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["files"][name]
    (folder / name).unlink()
    (folder / MANIFEST).write_text(json.dumps(manifest))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["adapter_model.safetensors", "optimizer.pt", "rng_state.pth", "trainer_state.json"]),
    data=st.one_of(
        st.binary(max_size=200),
        st.builds(lambda text: struct.pack("<Q", len(text)) + text, st.binary(max_size=100)),
        st.builds(
            lambda value: struct.pack("<Q", len(value)) + value,
            st.recursive(
                st.none() | st.integers() | st.text(max_size=5),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("data_offsets"), inner),
            ).map(lambda value: json.dumps({"t": value}).encode()),
        ),
        st.binary(max_size=60).map(lambda rest: b"PK\x03\x04" + rest + b"PK\x05\x06" + bytes(18)),
    ),
)
def test_the_check_of_a_file_raises_for_no_content(tmp_path: Path, name: str, data: bytes):
    (tmp_path / name).write_bytes(data)
    assert isinstance(judge_file(str(tmp_path), name), str)
    assert read_step(str(tmp_path)) is None or isinstance(read_step(str(tmp_path)), int)


def test_a_save_on_sigterm_that_transformers_did_not_complete_is_never_published(tmp_path: Path):
    folder = save(tmp_path / "checkpoints", 10)
    (folder / "checkpoint-is-incomplete.txt").write_text("Checkpoint started at step 10 and in progress...")
    with pytest.raises(BrokenCheckpoint, match="interrupted"):
        published.publish(str(folder))
    (folder / "checkpoint-is-incomplete.txt").unlink()
    assert published.publish(str(folder)).step == 10


def test_BI_57_every_ranks_random_state_must_exist(tmp_path: Path):
    folder = save(tmp_path / "checkpoints", 10)
    (folder / "rng_state.pth").rename(folder / "rng_state_0.pth")
    with pytest.raises(BrokenCheckpoint, match=r"rng_state_1\.pth is missing"):
        published.publish(str(folder), world_size=2)
    shutil.copy(folder / "rng_state_0.pth", folder / "rng_state_1.pth")
    assert published.publish(str(folder), world_size=2).world_size == 2
    assert published.verify(str(folder)) == ""


@pytest.mark.parametrize("number", [3 * 10**9, 10**100])
def test_SE_the_number_of_a_random_state_takes_no_memory(number: int) -> None:
    present = {f"rng_state_{each}.pth" for each in (0, 1, number)}
    assert judge_random_states(present, 2) == "rng_state_2.pth is missing"
    assert judge_random_states(present - {"rng_state_1.pth"}, 1) == "rng_state_1.pth is missing"


def test_a_trainer_state_of_another_step_than_the_folder_s_is_refused(tmp_path: Path):
    folder = save(tmp_path / "checkpoints", 10)
    (folder / "trainer_state.json").write_text('{"global_step": 9}')
    with pytest.raises(BrokenCheckpoint, match="step 9"):
        published.publish(str(folder))


def test_a_check_by_file_times_reads_no_weights_and_still_detects_a_change(run: Path):
    folder = run / "checkpoints" / "checkpoint-10"
    weights = folder / "adapter_model.safetensors"
    os.chmod(folder / "optimizer.pt", 0o600)
    published.remember_verdict(str(folder))
    read = Path("/proc/self/io").read_text
    before = _bytes_read(read())
    assert published.verify(str(folder), trust_stat=True) == ""
    assert _bytes_read(read()) - before < weights.stat().st_size + 8192
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    assert "adapter_model.safetensors" in published.verify(str(folder), trust_stat=True)


def _bytes_read(io: str) -> int:
    return int(io.split()[1])


def test_rotation_keeps_the_newest_verified_checkpoints_and_protected_ones(run: Path):
    parent = run / "checkpoints"
    for step in (15, 20):
        published.publish(str(save(parent, step)))
    assert published.rotate(str(parent), 2, also=["checkpoint-5"]) == ["checkpoint-10"]
    assert sorted(path.name for path in parent.iterdir()) == ["checkpoint-15", "checkpoint-20", "checkpoint-5"]


def test_rotation_removes_nothing_while_the_newest_is_not_verified(run: Path):
    save(run / "checkpoints", 15)
    assert published.rotate(str(run / "checkpoints"), 1) == []
    assert published.newest_verified(str(run)).step == 10


def test_rotation_counts_by_step_and_not_by_age(run: Path):
    parent = run / "checkpoints"
    os.utime(parent / "checkpoint-5")
    assert published.rotate(str(parent), 1) == ["checkpoint-5"]


def test_rotation_completes_a_removal_that_was_killed(run: Path):
    parent = run / "checkpoints"
    (parent / ".trash-checkpoint-1-abc").mkdir()
    published.rotate(str(parent), 2)
    assert not list(parent.glob(".trash-*"))


def test_a_resume_begins_at_the_newest_verified_and_sets_the_broken_aside(bench: Bench):
    bench.start("--steps", 15, "--save-every", 5)
    until(lambda: bench.survey().result, "the end")
    parent = Path(bench.layout.checkpoints)
    flip(parent / "checkpoint-15" / "optimizer.pt")
    (parent / "checkpoint-10" / "scaler.pt").unlink()
    point = prepare_resume(bench.host, PROJECT, bench.run)
    assert point.path == str(parent / "checkpoint-5")
    assert point.checkpoint.step == 5
    assert sorted(name.split("-2")[0] for name in point.broken) == [
        "checkpoints/broken-checkpoint-10",
        "checkpoints/broken-checkpoint-15",
    ]
    kept = [path for path in parent.iterdir() if path.name.startswith("broken-checkpoint-15")]
    assert (kept[0] / "optimizer.pt").exists(), "nothing of it may be lost"
    assert prepare_resume(bench.host, PROJECT, bench.run) == type(point)(point.path, point.checkpoint)


def test_BI_58_without_any_checkpoint_a_resume_exits_with_43_and_does_not_start_at_step_0(bench: Bench):
    bench.start("--steps", 5, "--save-every", 5)
    until(lambda: bench.survey().result, "the end")
    (Path(bench.layout.checkpoints) / "checkpoint-5" / "optimizer.pt").unlink()
    with pytest.raises(RemoteFault, match=r"checkpoint-5: optimizer\.pt") as fault:
        prepare_resume(bench.host, PROJECT, bench.run)
    assert fault.value.exit_code is ExitCode.CHECKPOINT
    assert "--force train" in fault.value.hint
    assert len(bench.survey().checkpoints) == 1, "what is broken must still keep the next try from starting anew"
    with pytest.raises(RemoteFault, match=r"checkpoint-5: optimizer\.pt"):
        prepare_resume(bench.host, PROJECT, bench.run)


def test_checkpoints_of_a_running_job_are_left_to_it(bench: Bench):
    bench.start("--steps", 5, "--save-every", 5, "--until", "/never")
    with pytest.raises(RemoteFault) as fault:
        prepare_resume(bench.host, PROJECT, bench.run)
    assert fault.value.exit_code is ExitCode.BUSY


def test_after_a_reboot_a_save_without_its_manifest_is_not_verified(bench: Bench):
    bench.start("--steps", 10, "--save-every", 5)
    until(lambda: bench.survey().result, "the end")
    (Path(bench.layout.checkpoints) / "checkpoint-10" / MANIFEST).unlink()
    started = Path(bench.job().supervisor)
    started.write_text(json.dumps({**json.loads(started.read_text()), "boot_id": "another"}))
    assert prepare_resume(bench.host, PROJECT, bench.run).checkpoint.step == 5
