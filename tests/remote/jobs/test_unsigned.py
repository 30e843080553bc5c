"""A job ends if one of its several processes runs without the hooks, which sign what the processes send each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.diagnosis.diagnose import diagnose_text
from remote.operations.jobs import start_job, stop_job
from remote.payload.jobs.verdict import Evidence, judge_end
from remote.payload.processes.identity import read_process
from remote.payload.proof.unhooked import find_unsigned
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobResult, JobState
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench

HOOKS = "{hooks}"
KEPT = {"HALFSTEP_KEY_FILE": "/key", "HALFSTEP_WATCH": "/run"}
LOADED = "import time, torch; time.sleep(600)"


@pytest.mark.parametrize("start", ["export PYTHONPATH=$PWD; exec {} -c", "env -u PYTHONPATH {} -c", "{} -Ic"])
def test_a_job_ends_before_unhooked_processes_exchange_anything(bench: Bench, start: str) -> None:
    command = f"export WORLD_SIZE=2 RANK=0; {start.format(sys.executable)} '{LOADED}'"
    spec = replace(bench.spec(), argv=("sh", "-c", command))
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))
    until(lambda: bench.survey().state is JobState.FAILED, seconds=120.0)
    result = bench.survey().result
    assert result is not None
    assert "is one of several processes of a training" in result.reason
    assert ("python -I ignores" in result.reason) is (start == "{} -Ic")
    assert [one.check for one in diagnose_text(bench.output())][:1] == ["unsigned-processes"]


def kept_variables(bench: Bench, kept: Path) -> dict[str, str]:
    """Start a job that writes its variables into a file and then sleeps, and return the variables."""
    spec = replace(bench.spec(), argv=("bash", "-c", f"env -0 > {kept}.new; mv {kept}.new {kept}; exec sleep 600"))
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))
    until(kept.exists, "the job")
    return dict(one.split("=", 1) for one in kept.read_text().split("\0") if "=" in one)


def test_a_process_that_a_service_started_for_the_job_ends_the_job_and_is_killed(bench: Bench, tmp_path: Path) -> None:
    environment = {**kept_variables(bench, tmp_path / "kept"), "WORLD_SIZE": "2", "RANK": "0", "PYTHONPATH": "src"}
    with subprocess.Popen([sys.executable, "-c", LOADED], env=environment) as process:
        try:
            until(lambda: bench.survey().state is JobState.FAILED, seconds=120.0)
            assert process.wait(timeout=60) == -signal.SIGKILL
        finally:
            process.kill()
    result = bench.survey().result
    assert result is not None and "is one of several processes of a training" in result.reason


def test_a_stop_ends_a_process_that_a_service_started_for_the_job(bench: Bench, tmp_path: Path) -> None:
    environment = kept_variables(bench, tmp_path / "kept")
    with subprocess.Popen(["sleep", "600"], env=environment) as process:
        try:
            answer = stop_job(bench.host, PROJECT, bench.spec().run)
            assert process.wait(timeout=60) == -signal.SIGTERM
        finally:
            process.kill()
    assert (answer.state, answer.left) == (JobState.STOPPED, ())


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"WORLD_SIZE": "2", "PYTHONPATH": "src"}, True),
        ({"WORLD_SIZE": "1", "PYTHONPATH": "src"}, False),
        ({"PYTHONPATH": "src"}, False),
        ({"WORLD_SIZE": "2", "PYTHONPATH": HOOKS}, True),
        ({"WORLD_SIZE": "2", "PYTHONPATH": HOOKS, **KEPT}, False),
        ({"WORLD_SIZE": "2", "PYTHONPATH": f"src:{HOOKS}", **KEPT}, False),
    ],
)
def test_only_a_process_that_would_sign_with_the_hooks_is_found(
    tmp_path: Path, variables: dict[str, str], found: bool
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "WORLD_SIZE"}
    variables = {name: value.format(hooks=tmp_path) for name, value in variables.items()}
    argv = [sys.executable, "-c", "import torch; print(flush=True); input()"]
    with subprocess.Popen(argv, env={**environment, **variables}, stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        running = read_process(process.pid)
        assert running is not None
        reason = find_unsigned([running], str(tmp_path))
        process.kill()
    assert (reason is not None) is found


def test_the_reason_of_a_refused_job_is_its_result() -> None:
    assert judge_end(Evidence(0, refused="not signed"), 0.0) == JobResult(1, reason="not signed")
