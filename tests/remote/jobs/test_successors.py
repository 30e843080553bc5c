"""A process of a job that starts a successor and exits, again and again, ends with the job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from remote.operations.jobs import start_job, stop_job
from remote.payload.processes.reaping import reap_child
from remote.protocol.job_requests import StartRequest
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench

SUCCESSORS = """
import os, sys, time
if os.fork():
    time.sleep(float(sys.argv[3]))
    sys.exit()
if sys.argv[4:]:
    os.setsid()
with open(sys.argv[1] + ".part", "w") as file:
    file.write(str(os.getpgrp()))
os.rename(sys.argv[1] + ".part", sys.argv[1])
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    time.sleep(float(sys.argv[2]))
"""


def lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("own_session", [(), ("setsid",)], ids=["session of the job", "session of their own"])
@pytest.mark.parametrize("pause", ["0", "0.0005", "0.02"])
@pytest.mark.parametrize("trainer", ["600", "0"], ids=["the trainer lives", "the trainer has ended"])
def test_successors_of_successors_end_with_the_job(
    bench: Bench, tmp_path: Path, trainer: str, pause: str, own_session: tuple[str, ...]
) -> None:
    note = tmp_path / "group"
    script = tmp_path / "successors.py"
    script.write_text(SUCCESSORS)
    argv = (bench.python, str(script), str(note), pause, trainer, *own_session)
    start_job(bench.host, StartRequest(PROJECT, replace(bench.spec(grace_s=0.5), argv=argv), "tiny"))
    until(note.exists, "the first successor")
    group = int(note.read_text())
    assert lives(group)
    supervisor = bench.survey().started
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGTERM)
    until(lambda: bench.survey().result, "the end")
    assert not lives(group)
    assert stop_job(bench.host, PROJECT, bench.run).left == ()


def test_only_the_group_of_a_child_that_has_ended_is_killed() -> None:
    """Another child in its own group lives on, and so does this process."""
    script = """
import os, signal, sys
from remote.payload.processes.reaping import reap_child
def start(group, then):
    pid = os.fork()
    if not pid:
        if group is not None:
            os.setpgid(0, group)
        then()
        os._exit(0)
    if group is not None:
        try:
            os.setpgid(pid, group)
        except OSError:
            pass
    return pid
assert start(None, lambda: None) and os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
assert reap_child(kills_group=True)[1] == 0
other = start(0, signal.pause)
gate, opened = os.pipe()
first = start(0, lambda: os.read(gate, 1))
same = start(first, signal.pause)
assert reap_child(kills_group=True) == (0, 0)
os.write(opened, b"x")
os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
assert reap_child(kills_group=True) == (first, 0)
assert os.waitpid(same, 0) == (same, signal.SIGKILL)
assert reap_child(kills_group=True) == (0, 0)
os.kill(other, signal.SIGKILL)
os.waitpid(other, 0)
try:
    reap_child(kills_group=True)
except ChildProcessError:
    print("no child")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("no child\n", "")


def test_an_ended_child_is_reaped_without_a_signal_to_its_group() -> None:
    with subprocess.Popen(["sleep", "600"], process_group=0) as other:
        with subprocess.Popen(["true"], process_group=other.pid) as child:
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            assert reap_child() == (child.pid, 0)
        assert other.poll() is None
        other.send_signal(signal.SIGKILL)
