"""Processes of a job that hide the job's marks are found and ended, also after the supervisor was killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remote.operations.jobs import adopt_job, start_job, stop_job
from remote.payload.files.records import read_record, write_record
from remote.payload.jobs.orphans import orphans_of
from remote.protocol.exits import ExitCode
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState, Started
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench
from tests.remote.jobs.orphaned import kill_exit_recorder

OWN = '{python} -c \'import os, time; open("{pids}", "a").write(str(os.getpid()) + chr(10)); time.sleep(600)\''
"""A process that notes its pid. `env -i` in front of it replaces its environment."""

SHAPES = {
    "its own environment": "env -i {own} & wait",
    "its own environment and output": "env -i {own} >/dev/null 2>&1 & wait",
    "a session of its own": "env -i setsid {own} & wait",
    "a daemon": "env -i setsid sh -c '{own_quoted} & exit' >/dev/null 2>&1 & wait",
}


@pytest.fixture
def begin(bench: Bench, tmp_path: Path) -> Callable[[str], int]:
    """Start a job whose shell starts a process of that shape, kill the supervisor, and return the process's pid."""
    pids = tmp_path / "pids"

    def started(shape: str) -> int:
        own = OWN.format(python=bench.python, pids=pids)
        script = SHAPES[shape].format(own=own, own_quoted=own.replace("'", "'\\''"))
        spec = replace(bench.spec(grace_s=2.0), argv=("sh", "-c", f"{script}; sleep 600"))
        start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))
        until(lambda: pids.exists() and pids.read_text().endswith("\n"), "the hidden process")
        supervisor = bench.survey().started.pid
        os.kill(supervisor, signal.SIGKILL)
        until(lambda: not alive(supervisor), "the supervisor's end")
        return int(pids.read_text())

    return started


@pytest.mark.parametrize("shape", SHAPES)
def test_a_stop_of_an_adopted_job_ends_a_process_without_marks(
    bench: Bench, begin: Callable[[str], int], shape: str
) -> None:
    hidden = begin(shape)
    adopt_job(bench.host, PROJECT, bench.run)
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert answer.state is JobState.STOPPED
    assert not alive(hidden)


def test_a_process_without_marks_that_outlives_the_trainer_is_ended_with_the_job(
    bench: Bench, begin: Callable[[str], int]
) -> None:
    """The trainer ends while the job has no supervisor."""
    hidden = begin("a daemon")
    trainer = next(one.pid for one in orphans_of(bench.layout, bench.job()) if one.pid != hidden)
    os.kill(trainer, signal.SIGKILL)
    until(lambda: not alive(trainer), "the trainer's end")
    assert bench.survey().state is JobState.RUNNING
    adopt_job(bench.host, PROJECT, bench.run)
    result = until(lambda: bench.survey().result, "the end", seconds=30.0)
    assert (result.exit, result.signal) == (128 + signal.SIGKILL, signal.SIGKILL)
    assert not alive(hidden)


@pytest.mark.parametrize("shape", ["its own environment", "its own environment and output"])
def test_a_job_without_supervisor_and_recorder_is_found_by_its_session(
    bench: Bench, begin: Callable[[str], int], shape: str
) -> None:
    hidden = begin(shape)
    kill_exit_recorder(bench)
    found = {one.pid for one in orphans_of(bench.layout, bench.job())}
    assert hidden in found
    assert bench.start(number=1).fresh is False
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert answer.state is JobState.STOPPED
    assert not any(map(alive, found))


def test_a_trainer_that_hides_its_environment_is_not_lost(bench: Bench) -> None:
    """A process title written over the environment has this effect, and so has `env -i`."""
    spec = replace(bench.spec(grace_s=2.0), argv=("env", "-i", "sh", "-c", "echo up; sleep 600; echo end"))
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))
    until(lambda: bench.output() == "up\n", "the trainer")
    supervisor = bench.survey().started.pid
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not alive(supervisor), "the supervisor's end")
    kill_exit_recorder(bench)
    found = [one.pid for one in orphans_of(bench.layout, bench.job())]
    assert len(found) == 2
    with pytest.raises(Exception, match="without its supervisor") as fault:
        bench.start(number=2)
    assert fault.value.exit_code is ExitCode.BUSY
    assert stop_job(bench.host, PROJECT, bench.run).state is JobState.STOPPED
    assert not any(map(alive, found))


def test_a_later_session_with_the_number_of_the_job_is_not_the_job(bench: Bench, tmp_path: Path) -> None:
    """The exit recorder has ended, and its pid is that of a shell that has ended too, but not its command."""
    ready = tmp_path / "ready"
    bench.start()
    until(lambda: bench.survey().result, "the end")
    Path(bench.job().result).unlink()
    leader = os.fork()
    if leader == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            ready.write_text(str(os.getpid()))
            while True:
                signal.pause()
        os._exit(0)
    os.waitpid(leader, 0)
    until(lambda: ready.exists() and ready.read_text(), "the command")
    foreign = int(ready.read_text())
    try:
        assert os.getsid(foreign) == leader
        record = read_record(bench.job().supervisor, Started)
        assert record is not None
        write_record(bench.job().supervisor, replace(record, child_pid=leader))
        assert orphans_of(bench.layout, bench.job()) == []
    finally:
        os.kill(foreign, signal.SIGKILL)
