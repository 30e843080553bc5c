"""A job on another machine with the same files, such as a second login node, or in another container."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from remote.operations.jobs import start_job
from remote.payload.files.records import write_record
from remote.payload.jobs import operations, stopping
from remote.payload.jobs import state as state_module
from remote.payload.jobs.records import StopRequest
from remote.payload.jobs.state import SILENT_AFTER_S, is_elsewhere, judge_job
from remote.payload.processes.identity import began_unix, boot_id, boot_unix, descendants, pid_namespace
from remote.protocol.job_requests import StartRequest, StopAnswer
from remote.protocol.jobs import JobState, Started
from remote.protocol.values import decode
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench
from tests.remote.jobs.orphaned import orphan

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("started", "elsewhere"),
    [
        (Started(1, 1, boot_id()), False),
        (Started(1, 1, boot_id(), namespace=pid_namespace(), machine="other"), False),
        (Started(1, 1, boot_id(), namespace="pid:[1]", machine="other"), True),
        (Started(1, 1, boot_id(), namespace="pid:[1]", machine=os.uname().nodename), True),  # the host's network
        (Started(1, 1, "another"), True),
        (Started(1, 1, "another", machine="login2"), True),
    ],
)
def test_a_job_is_elsewhere_on_another_machine_or_in_another_pid_namespace(started: Started, elsewhere: bool) -> None:
    assert is_elsewhere(started) is elsewhere


@pytest.mark.parametrize(
    ("machine", "wrote_s_ago", "began_s_ago", "state"),
    [
        ("", 10.0, 3600.0, JobState.RUNNING),
        ("same", 10.0, 3600.0, JobState.RUNNING),  # two containers with the name of their host
        ("same", 10.0, 5.0, JobState.LOST),  # this machine or container was restarted
        ("", 10.0, 5.0, JobState.LOST),
        ("login2", 10.0, 5.0, JobState.RUNNING),  # this one has just been started, the other still runs
        ("login2", 3600.0, 5.0, JobState.LOST),
        ("same", 3600.0, 7200.0, JobState.LOST),
    ],
)
@pytest.mark.parametrize("where", [{"boot_id": "another"}, {"namespace": "pid:[1]"}])
def test_a_job_of_the_same_machine_runs_if_it_has_written_since_the_restart(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    where: dict[str, str],
    machine: str,
    wrote_s_ago: float,
    began_s_ago: float,
    state: JobState,
) -> None:
    now, name = time.time(), os.uname().nodename if machine == "same" else machine
    Path(bench.job().root).mkdir(parents=True)
    write_record(bench.job().supervisor, replace(Started(0, 0, boot_id()), machine=name, **where))
    os.utime(bench.job().supervisor, (now - wrote_s_ago, now - wrote_s_ago))
    monkeypatch.setattr(state_module, "began_unix", lambda: now - began_s_ago)
    assert judge_job(bench.layout, 1).state is state


@pytest.mark.parametrize(("container", "runs"), [("halfstep-2", True), ("halfstep-1", False)])
def test_two_containers_of_halfstep_have_the_network_name_of_their_host(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, container: str, runs: bool
) -> None:
    monkeypatch.setenv("HALFSTEP_CONTAINER", f"docker {container} sha256:1d")
    monkeypatch.setattr(state_module, "began_unix", time.time)
    Path(bench.job().root).mkdir(parents=True)
    write_record(bench.job().supervisor, Started(0, 0, boot_id(), namespace="pid:[1]", machine="halfstep-1"))
    assert (judge_job(bench.layout, 1).state is JobState.RUNNING) is runs


def test_this_machine_or_container_began_at_its_boot_or_later() -> None:
    assert boot_unix() - 1.0 <= began_unix() <= time.time()


@pytest.mark.root
def test_a_container_began_at_the_start_of_its_first_process() -> None:
    script = "from remote.payload.processes.identity import began_unix; print(began_unix())"
    before = time.time()
    argv = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)
    assert before - 0.05 <= float(done.stdout) <= time.time()


@pytest.fixture
def leave(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after whose call this process is on another machine with the same files."""

    def called() -> None:
        monkeypatch.setattr(state_module, "boot_id", lambda: "another")
        monkeypatch.setattr(state_module, "orphans_of", lambda run, job: ())
        monkeypatch.setattr(state_module, "is_alive", lambda pid, ticks, boot: False)

    return called


def test_a_training_without_a_supervisor_runs_as_long_as_it_writes(bench: Bench, leave: Callable[[], None]) -> None:
    started = bench.start("--steps", 100000).started
    assert started is not None and started.machine == os.uname().nodename
    until(lambda: bench.survey().progress, "a step")
    processes = [started.pid, *(process.pid for process in descendants(started.pid))]
    for pid in processes:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(map(alive, processes)), "the end of the processes")
    assert judge_job(bench.layout, 1).state is JobState.LOST
    leave()
    assert judge_job(bench.layout, 1).state is JobState.RUNNING
    with pytest.raises(Exception, match="in another container") as refused:
        operations._refuse_while_busy(bench.layout, bench.spec(number=2))
    assert os.uname().nodename in str(refused.value)
    bench.silence()
    assert judge_job(bench.layout, 1).state is JobState.LOST


def test_the_supervisor_obeys_a_request_that_comes_without_a_signal(bench: Bench) -> None:
    """A process on another machine can write to the job's folder, but cannot send a signal."""
    bench.start("--steps", 100000, "--on-term", "save")
    until(lambda: bench.survey().progress, "a step")
    write_record(bench.job().stop, StopRequest(30.0, time.time()))
    result = until(lambda: bench.survey().result, "the end")
    assert result.stopped
    assert len(bench.events("saved")) == 1


def test_a_queued_job_is_seen_and_stopped_from_another_machine(bench: Bench, leave: Callable[[], None]) -> None:
    bench.start("--steps", 100000, request={"queue": True})
    second = replace(bench, run="tiny-22222222")
    second.start("--steps", 1, request={"queue": True})
    leave()
    assert judge_job(second.layout, 1).state is JobState.RUNNING
    assert judge_job(bench.layout, 1).state is JobState.RUNNING
    write_record(second.job().stop, StopRequest(30.0, time.time()))
    result = until(lambda: second.survey().result, "the end")
    assert (result.stopped, result.reason) == (True, "stopped before it began")


def test_a_request_to_stop_does_not_apply_to_a_job_that_is_started_again(bench: Bench) -> None:
    """A stop that failed, such as without an answer of Slurm, leaves its request."""
    Path(bench.job().root).mkdir(parents=True)
    write_record(bench.job().stop, StopRequest(30.0, time.time()))
    bench.start("--steps", 4)
    result = until(lambda: bench.survey().result, "the end")
    assert (result.exit, result.stopped) == (0, False)


def test_a_supervisor_without_a_visible_lock_shows_that_it_is_alive(bench: Bench) -> None:
    """On a file system whose locks hold on one machine only, another machine sees none."""
    bench.start("--until", "/never")
    until(lambda: bench.survey().started, "the start")
    bench.silence()
    until(lambda: os.stat(bench.job().supervisor).st_mtime > time.time() - SILENT_AFTER_S, "a beat", seconds=60.0)


def stop_without_effect(bench: Bench, monkeypatch: pytest.MonkeyPatch, *, asked_again: bool = False) -> StopAnswer:
    """Return the answer of a stop that only leaves its request, which another stop may replace."""

    def leave_request(call: object, run: object, number: int, asked_unix: float) -> None:
        write_record(bench.job().stop, StopRequest(30.0, asked_unix + asked_again))

    monkeypatch.setattr(stopping, "_stop_job", leave_request)
    monkeypatch.setattr(stopping, "run_layout", lambda call, project, run: bench.layout)
    call = SimpleNamespace(args={"project": PROJECT, "run": bench.run}, keep_alive=lambda: None)
    return decode(StopAnswer, stopping.stop(call))


@pytest.fixture
def lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No job ends."""
    monkeypatch.setattr(
        stopping, "judge_job", lambda run, number: replace(judge_job(run, number), state=JobState.RUNNING)
    )


@pytest.mark.usefixtures("lasting")
def test_a_stop_that_failed_leaves_no_request(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that adopts the job later would obey it, when nobody wants the job to end."""
    orphan(bench, "--until", "/never")
    answer = stop_without_effect(bench, monkeypatch)
    assert (answer.state, answer.elsewhere) == (JobState.RUNNING, "")
    assert not Path(bench.job().stop).exists()


@pytest.mark.usefixtures("lasting")
def test_a_stop_that_failed_leaves_the_request_of_a_later_stop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    orphan(bench, "--until", "/never")
    stop_without_effect(bench, monkeypatch, asked_again=True)
    assert Path(bench.job().stop).exists()


@pytest.mark.usefixtures("lasting")
def test_a_stop_names_the_machine_that_it_does_not_reach(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    orphan(bench, "--until", "/never")
    monkeypatch.setattr(state_module, "boot_id", lambda: "another")
    assert stop_without_effect(bench, monkeypatch).elsewhere == os.uname().nodename


def test_a_second_stop_does_not_withdraw_the_request_that_a_supervisor_obeys(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.start("--steps", 100000, "--on-term", "save")
    until(lambda: bench.survey().progress, "a step")
    assert stop_without_effect(bench, monkeypatch).state is JobState.RUNNING
    result = until(lambda: bench.survey().result, "the end")
    assert result.stopped


def test_a_request_that_was_seen_counts_after_it_was_removed(bench: Bench, tmp_path: Path) -> None:
    ready, got, enough = (tmp_path / name for name in ("ready", "got", "enough"))
    script = f"trap 'touch {got}' TERM; touch {ready}; until [ -e {enough} ]; do sleep 0.05; done; exit 0"
    spec = replace(bench.spec(), argv=("sh", "-c", script))
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))
    until(ready.exists, "the command")
    write_record(bench.job().stop, StopRequest(30.0, time.time()))
    until(got.exists, "the SIGTERM")
    Path(bench.job().stop).unlink()
    enough.touch()
    result = until(lambda: bench.survey().result, "the end")
    assert (result.stopped, result.reason) == (True, "stopped on request")
