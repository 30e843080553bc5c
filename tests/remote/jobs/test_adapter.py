"""The digest of an adapter, and its cached value for a finished run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import Bench


def test_a_finished_run_s_adapter_is_not_read_again_until_it_changes(bench: Bench):
    go = bench.workdir / "go"
    bench.start("--until", go)
    adapter = Path(bench.layout.adapter)
    adapter.mkdir()
    weights = adapter / "adapter_model.safetensors"
    weights.write_bytes(b"weights" * 1000)
    right = hashlib.sha256(b"weights" * 1000).hexdigest()
    assert bench.survey().adapter_sha256 == right, "while the job runs it is computed"
    go.touch()
    until(lambda: bench.survey().result, "the end")
    record = Path(bench.layout.root) / "adapter.json"
    assert bench.survey().adapter_sha256 == right
    record.write_text(record.read_text().replace(right, "0" * 64))
    assert bench.survey().adapter_sha256 == "0" * 64, "the record must have been believed"
    weights.write_bytes(b"weightz" * 1000)
    assert bench.survey().adapter_sha256 == hashlib.sha256(b"weightz" * 1000).hexdigest()


def test_a_run_without_an_adapter_has_no_digest(bench: Bench):
    bench.start()
    until(lambda: bench.survey().result, "the end")
    assert bench.survey().adapter_sha256 == ""


def save_adapter(folder: Path, weights: bytes, *, at: int) -> str:
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text("{}")
    saved = folder / "adapter_model.safetensors"
    saved.write_bytes(weights)
    os.utime(saved, (at, at))
    return hashlib.sha256(weights).hexdigest()


def weights_of(bench: Bench) -> dict[str, str]:
    offered = bench.host.ask("weights.list", {"run": os.path.relpath(bench.layout.root, bench.workdir)})
    return {name: sha256 for name, _, sha256 in offered["files"]}


def end_after(bench: Bench, prepare: Callable[[Path], str], *words: object) -> str:
    """Return the result of `prepare`, whose files are in the run's folder when the job ends."""
    go = bench.workdir / "go"
    bench.start("--until", go, *words)
    made = prepare(Path(bench.layout.root))
    go.touch()
    until(lambda: bench.survey().result, "the end")
    return made


def test_an_adapter_that_a_script_saves_beside_its_checkpoints_is_the_run_s_adapter(bench: Bench):
    def save(run: Path) -> str:
        save_adapter(run / "checkpoints" / "checkpoint-30", b"at step 30", at=4000)
        save_adapter(run / "checkpoints" / "broken-checkpoint-40-1", b"broken", at=5000)
        save_adapter(run / "checkpoints" / "first", b"first", at=1000)
        return save_adapter(run / "checkpoints" / "last", b"last", at=2000)

    right = end_after(bench, save)
    assert bench.survey().adapter_sha256 == right
    assert weights_of(bench)["adapter_model.safetensors"] == right


def test_if_only_checkpoints_hold_an_adapter_the_one_of_the_highest_step_counts(bench: Bench):
    def save(run: Path) -> str:
        right = save_adapter(run / "checkpoints" / "checkpoint-10", b"at step 10", at=1000)
        save_adapter(run / "checkpoints" / "checkpoint-9", b"at step 9", at=2000)
        return right

    assert end_after(bench, save) == bench.survey().adapter_sha256


def test_an_adapter_in_the_script_s_own_folder_counts_unless_it_came_with_the_project(bench: Bench):
    def save(run: Path) -> str:
        save_adapter(run / "code" / "base", b"sent from the laptop", at=9000)
        (run.parent.parent / "sync.json").write_text(
            json.dumps({"rows": {"base/adapter_model.safetensors": {}, "base/adapter_config.json": {}}})
        )
        return save_adapter(run / "code" / "out" / "final", b"made by the job", at=1000)

    assert end_after(bench, save) == bench.survey().adapter_sha256


def test_a_job_that_failed_has_no_adapter_from_its_checkpoints(bench: Bench):
    def save(run: Path) -> str:
        return save_adapter(run / "checkpoints" / "checkpoint-10", b"at step 10", at=1000)

    end_after(bench, save, "--exit", 3)
    assert bench.survey().adapter_sha256 == ""
