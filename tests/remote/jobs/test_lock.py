"""One holder at a time: a kernel lock, or a lease if the file system has no locks."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from remote.link.agent import AgentHost
from remote.link.streams import LocalProcessStream, ProcessStream
from remote.operations.jobs import start_job
from remote.payload.files import lease
from remote.payload.files.lease import read_holder, take_lease
from remote.payload.files.lock import KERNEL_DEADLINE_S, Held, holder, take_lock
from remote.protocol.job_requests import StartRequest
from tests.lab.wait import PATIENCE_S, until
from tests.remote.jobs.jobs_bench import PROJECT, Bench

HOLD = """
import sys, time
from remote.payload.files.lock import take_lock
with take_lock(sys.argv[1], "job 1 of me"):
    print("held", flush=True)
    time.sleep(600)
"""

STRACE = ("strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=flock")
NO_LOCKS = (*STRACE, "--inject=flock:error=ENOLCK")


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Start a process that holds the lock of a path, optionally as the argument of another command."""
    started: list[subprocess.Popen] = []

    def start(path: Path, *before: str) -> subprocess.Popen:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        argv = [*before, sys.executable, "-c", HOLD, str(path)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment, start_new_session=True)
        started.append(process)
        assert process.stdout.readline() == b"held\n"
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_FI_29_a_killed_holder_s_lock_is_free_at_once(tmp_path: Path, hold):
    process = hold(tmp_path / "lock")
    with pytest.raises(Held, match="job 1 of me"):
        take_lock(str(tmp_path / "lock"), "mine")
    assert holder(str(tmp_path / "lock")) == "job 1 of me"
    process.kill()
    process.wait()
    take_lock(str(tmp_path / "lock"), "mine").release()
    assert holder(str(tmp_path / "lock")) is None


def test_FI_30_a_frozen_holder_keeps_its_lock(tmp_path: Path, hold):
    process = hold(tmp_path / "lock")
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(Held, match="job 1 of me"):
        take_lock(str(tmp_path / "lock"), "mine", wait_s=0.1)


@pytest.fixture
def no_kernel_locks() -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace on this machine")


@pytest.mark.usefixtures("no_kernel_locks")
def test_FI_31_without_kernel_locks_a_lease_keeps_others_out_and_ends_with_its_holder(tmp_path: Path, hold):
    hold(tmp_path / "lock", *NO_LOCKS)
    path = str(tmp_path / "lock.lease")
    held = read_holder(path)
    assert held.words == "job 1 of me"
    assert take_lease(path, "mine", time.monotonic()) is None
    os.kill(held.pid, signal.SIGKILL)
    mine = take_lease(path, "mine", time.monotonic() + PATIENCE_S)
    assert mine is not None
    assert read_holder(path).words == "mine"
    mine.release()
    assert not Path(path).exists()


class LocklessStarter:
    """Starts agents and supervisors that see a file system without locks."""

    def start(self, argv: Sequence[str]) -> ProcessStream:
        return LocalProcessStream([*NO_LOCKS, *argv])

    def close(self) -> None:
        """Do nothing, since nothing is kept between two starts."""


@pytest.mark.usefixtures("no_kernel_locks")
def test_FI_31_a_job_starts_once_on_a_file_system_without_locks(bench: Bench):
    host = AgentHost("lockless", LocklessStarter(), workdir=str(bench.workdir))
    go = bench.workdir / "go"
    try:
        request = StartRequest(PROJECT, bench.spec("--until", go), "tiny")
        assert start_job(host, request).fresh
        assert not start_job(host, request).fresh
        assert bench.survey().state.value == "running"
        go.touch()
        assert until(lambda: bench.survey().result, "the end").exit == 0
    finally:
        host.close()
    assert len(bench.events("begin")) == 1
    until(lambda: not list(bench.workdir.rglob("*.lease")), "every lease given back")


def _elsewhere(path: Path, beats: int) -> None:
    """Write the lease of another machine, with that counter."""
    row = {"nonce": "theirs", "boot": "another", "namespace": "", "pid": 1, "ticks": 1, "words": "them"}
    path.write_text(f"{beats:012d}\n{json.dumps(row)}")


@pytest.mark.parametrize("skew_s", [7200, -7200])
def test_FI_32_a_holder_on_another_machine_is_judged_by_its_counter_and_not_by_a_clock(tmp_path: Path, skew_s: int):
    path = tmp_path / "lock.lease"
    _elsewhere(path, 1)
    ended = threading.Event()

    def beat() -> None:
        count = 1
        while not ended.wait(0.2):
            count += 1
            _elsewhere(path, count)
            os.utime(path, (time.time() + skew_s, time.time() + skew_s))

    beater = threading.Thread(target=beat)
    beater.start()
    try:
        assert take_lease(str(path), "mine", time.monotonic()) is None
    finally:
        ended.set()
        beater.join()
    os.utime(path, (time.time() + skew_s, time.time() + skew_s))
    began = time.monotonic()
    mine = take_lease(str(path), "mine", time.monotonic())
    assert mine is not None
    assert lease.STALE_AFTER_S <= time.monotonic() - began < lease.STALE_AFTER_S + 30
    mine.release()


def test_a_truncated_lease_file_is_replaced(tmp_path: Path):
    path = tmp_path / "lock.lease"
    path.write_bytes(b"0000")
    mine = take_lease(str(path), "mine", time.monotonic())
    assert mine is not None
    mine.release()


def test_a_lease_requested_by_many_has_one_holder_at_a_time(tmp_path: Path):
    path = str(tmp_path / "lock.lease")
    inside, overlaps, held = [0], [0], [0]

    def work() -> None:
        for _ in range(20):
            mine = take_lease(path, "mine", time.monotonic() + 60)
            assert mine is not None
            inside[0] += 1
            overlaps[0] += inside[0] > 1
            held[0] += 1
            time.sleep(0.001)
            inside[0] -= 1
            mine.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (held[0], overlaps[0]) == (80, 0)


@pytest.mark.usefixtures("no_kernel_locks")
def test_FI_31_a_lock_daemon_that_hangs_is_given_up_after_its_deadline(tmp_path: Path, hold):
    began = time.monotonic()
    hold(tmp_path / "lock", *STRACE, "--inject=flock:delay_enter=60000000")
    assert time.monotonic() - began < KERNEL_DEADLINE_S + 30
    assert read_holder(str(tmp_path / "lock.lease")).words == "job 1 of me"
