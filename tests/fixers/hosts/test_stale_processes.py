"""Processes left by an ended run are terminated, and no others."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from remote.errors import RemoteFault
from remote.link.local import local_host
from remote.protocol.jobs import JobResult, Started
from remote.protocol.values import dumps
from tests.fixers.setup_rig import PROJECT
from tests.lab.payload import install_payload
from tests.lab.wait import PATIENCE_S

RUN = "paper_r64-3f9c21aa"
IGNORES_TERM = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); sys.stdin.read()"
WAITS = "import sys; print(flush=True); sys.stdin.read()"


@pytest.fixture
def host(tmp_path):
    agent = local_host(str(install_payload(tmp_path / "host")))
    yield agent
    agent.close()


@pytest.fixture
def process():
    """Start Python programs that run until they are ended, each in its own session."""
    started = []

    def start(program, run_dir):
        child = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "HALFSTEP_RUN_DIR": run_dir},
            start_new_session=True,
        )
        child.stdout.readline()
        started.append(child)
        return child

    yield start
    for child in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        child.stdin.close()
        child.stdout.close()
        child.wait()


def run_dir(host, run=RUN):
    return f"{host.workdir}/{PROJECT.run(run).root}"


def end(host, *children, run=RUN):
    pids = [child.pid for child in children]
    return host.act("fix.processes.end", {"project": PROJECT.key, "run": run, "pids": pids, "grace_s": 0.5})


@pytest.mark.parametrize("program", [WAITS, IGNORES_TERM], ids=["ends when asked", "ends only when made to"])
def test_a_leftover_process_of_an_ended_run_is_terminated(host, process, program):
    job = PROJECT.run(RUN).job(1)
    host.write_bytes(job.result, dumps(JobResult(1)))
    child = process(program, run_dir(host))
    answer = end(host, child)
    assert child.wait(PATIENCE_S) in (-signal.SIGTERM, -signal.SIGKILL)
    assert answer == {"ended": [child.pid], "spared": []}
    assert end(host, child) == {"ended": [], "spared": [child.pid]}


def test_a_process_without_the_runs_mark_is_spared(host, process):
    other, stranger = process(WAITS, run_dir(host, "other-run")), process(WAITS, "/somewhere/else")
    assert end(host, other, stranger) == {"ended": [], "spared": sorted([other.pid, stranger.pid])}
    assert other.poll() is None
    assert stranger.poll() is None


def test_a_process_of_the_run_that_the_plan_did_not_name_is_left(host, process):
    named, unnamed = process(WAITS, run_dir(host)), process(WAITS, run_dir(host))
    end(host, named)
    assert named.wait(PATIENCE_S) == -signal.SIGTERM
    assert unnamed.poll() is None


def test_processes_of_a_running_job_are_never_terminated(host, process):
    child = process(WAITS, run_dir(host))
    with open(f"/proc/{child.pid}/stat", "rb") as stat:
        ticks = int(stat.read().rpartition(b")")[2].split()[19])
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    job = PROJECT.run(RUN).job(1)
    host.write_bytes(job.supervisor, dumps(Started(child.pid, ticks, boot, child.pid, ticks)))
    with pytest.raises(RemoteFault) as refusal:
        end(host, child)
    assert refusal.value.kind == "busy"
    assert child.poll() is None
