"""Jobs under Slurm whose command submits jobs itself, and jobs whose own submission has not returned."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from remote.operations.jobs import start_job, stop_job
from remote.payload.files.records import read_record
from remote.payload.jobs.records import Submitted
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobResult, JobState
from tests.lab.slurm import Slurm, slurm_cluster
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench
from tests.remote.jobs.test_slurm import SLURM, reach_time_limit


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    with slurm_cluster(tmp_path / "slurm", monkeypatch) as running:
        yield running


@pytest.mark.root
def test_a_job_that_ends_before_sbatch_returns_does_not_wait_for_itself(
    bench: Bench, cluster: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its number in Slurm is on record only after sbatch has returned; until then, squeue lists the job as its own."""
    real, slow, release = shutil.which("sbatch"), tmp_path / "slow" / "sbatch", tmp_path / "release"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\n{real} "$@" && until [ -e {release} ]; do sleep 0.1; done\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(bench.start, "--steps", 4, request=SLURM)
        try:
            result = until(lambda: read_record(bench.job().result, JobResult), "the end")
            known = read_record(bench.job().submitted, Submitted)
            assert known is not None and known.slurm_job == ""
        finally:
            release.touch()
        assert result.exit == 0
        assert started.result().state is JobState.SUCCEEDED
    assert bench.survey().state is JobState.SUCCEEDED


@pytest.mark.root
def test_a_run_is_not_continued_beside_a_job_that_its_command_has_submitted(bench: Bench, cluster: Slurm):
    """Scripts for clusters with short limits submit the job that continues them. Others submit evaluations."""
    spec = bench.spec("--steps", 20, "--on-term", "save", "--until", "/never")
    submit = 'sbatch --wrap="exec sleep 600" && exec "$@"'
    spec = replace(spec, argv=("sh", "-c", submit, "sh", *spec.argv))
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny", backend="slurm", max_jobs=2))
    until(lambda: (found := bench.survey().progress) and found.step == 20, "every step")
    reach_time_limit(cluster, bench)
    result = until(lambda: bench.survey().result, "the end")
    assert (result.next_job, len(bench.events("begin"))) == (0, 1)
    assert "its jobs in Slurm still run: " in result.reason
    assert stop_job(bench.host, PROJECT, bench.run).slurm_left == ()
    assert cluster.ask("squeue", "--noheader") == ""
