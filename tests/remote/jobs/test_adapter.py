"""The adapter's digest is its bytes', and a finished run's is known without reading them."""

from __future__ import annotations

import hashlib
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
    seal = Path(bench.layout.root) / "adapter.json"
    assert bench.survey().adapter_sha256 == right
    seal.write_text(seal.read_text().replace(right, "0" * 64))
    assert bench.survey().adapter_sha256 == "0" * 64, "the seal must have been believed"
    weights.write_bytes(b"weightz" * 1000)
    assert bench.survey().adapter_sha256 == hashlib.sha256(b"weightz" * 1000).hexdigest()


def test_a_run_without_an_adapter_has_no_digest(bench: Bench):
    bench.start()
    until(lambda: bench.survey().result, "the end")
    assert bench.survey().adapter_sha256 == ""
