"""A SIGTERM is known to the supervisor that judges the job, even if the one that received it was killed."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from remote.operations.jobs import adopt_job, start_job
from remote.payload.files.records import read_record, write_record
from remote.payload.jobs.records import StopRequest
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState, Started
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench


def start(bench: Bench, tmp_path: Path) -> Started:
    """Start a job that ignores SIGTERM, and ends with 0 once the file `enough` exists."""
    script = f"trap : TERM; touch {tmp_path}/ready; until [ -e {tmp_path}/enough ]; do sleep 0.05; done; exit 0"
    spec = replace(bench.spec(), argv=("sh", "-c", script))
    started = start_job(bench.host, StartRequest(PROJECT, spec, "tiny")).started
    assert started is not None
    until((tmp_path / "ready").exists, "the command")
    return started


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "the end of the process")


@pytest.mark.parametrize("receiver", ["supervisor", "exit recorder", "request", "nobody"])
def test_a_job_that_was_ended_by_SIGTERM_has_not_succeeded(bench: Bench, tmp_path: Path, receiver: str) -> None:
    started = start(bench, tmp_path)
    if receiver == "supervisor":
        os.kill(started.pid, signal.SIGTERM)
        until(lambda: (seen := read_record(bench.job().supervisor, Started)) and seen.sigterm, "the record")
    elif receiver == "request":  # from another machine, which withdraws it because the job does not end
        write_record(bench.job().stop, StopRequest(30.0, time.time()))
        until(lambda: (seen := read_record(bench.job().supervisor, Started)) and seen.sigterm, "the record")
        Path(bench.job().stop).unlink()
    kill(started.pid)
    if receiver == "exit recorder":
        os.kill(started.child_pid, signal.SIGTERM)
    (tmp_path / "enough").touch()
    until(lambda: not alive(started.child_pid), "the end of the command")
    adopt_job(bench.host, PROJECT, bench.run)
    result = until(lambda: bench.survey().result, "the result")
    assert bench.survey().state is (JobState.SUCCEEDED if receiver == "nobody" else JobState.FAILED)
    assert ("SIGTERM" in result.reason) is (receiver != "nobody")
