"""A training goes on if only its exit recorder is killed, and ends with the status of the trainer."""

from __future__ import annotations

import os
import signal

import pytest

from remote.operations.jobs import stop_job
from remote.protocol.jobs import JobState
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench
from tests.remote.jobs.orphaned import kill_exit_recorder


@pytest.fixture
def trainer(bench: Bench) -> int:
    """The pid of a trainer whose exit recorder was killed, while the supervisor lives."""
    bench.start("--steps", 3, "--exit", 5, "--until", bench.workdir / "go")
    pid: int = until(lambda: bench.events("begin"), "the trainer")[0]["pid"]
    beat = os.stat(bench.job().gauges).st_mtime_ns if os.path.exists(bench.job().gauges) else 0
    until(lambda: os.path.exists(bench.job().gauges) and os.stat(bench.job().gauges).st_mtime_ns != beat, "two checks")
    kill_exit_recorder(bench)
    return pid


@pytest.mark.parametrize(("number", "outcome"), [(0, (5, 0)), (signal.SIGKILL, (137, 9))])
def test_a_trainer_outlives_its_exit_recorder_and_its_status_is_known(
    bench: Bench, trainer: int, number: int, outcome: tuple[int, int]
) -> None:
    assert alive(trainer)
    if number:
        os.kill(trainer, number)
    else:
        (bench.workdir / "go").touch()
    result = until(lambda: bench.survey().result, "the end")
    assert (result.exit, result.signal) == outcome


def test_a_job_without_its_exit_recorder_is_stopped(bench: Bench, trainer: int) -> None:
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert answer.state is JobState.STOPPED
    assert not alive(trainer)


def test_a_trainer_that_was_killed_with_its_exit_recorder_has_failed(bench: Bench) -> None:
    bench.start("--workers", 1, "--until", "/never")
    trainer = until(lambda: bench.events("worker") and bench.events("begin"), "the trainer")[0]["pid"]
    os.kill(bench.survey().started.child_pid, signal.SIGKILL)
    os.kill(trainer, signal.SIGKILL)
    result = until(lambda: bench.survey().result, "the end", seconds=30.0)
    assert (result.exit, result.signal) == (137, 9)
    assert not alive(bench.events("worker")[0]["worker"])
