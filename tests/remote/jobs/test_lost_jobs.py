"""Jobs that are lost with their supervisor, reboots, and pids that are used again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from remote.operations.jobs import adopt_job, list_jobs, prepare_resume, start_job, stop_job
from remote.payload.files.lock import holder
from remote.payload.files.records import read_record
from remote.payload.jobs.following import read_news
from remote.payload.jobs.state import supervised
from remote.payload.processes.identity import boot_id, is_alive, read_process, send_signal
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState, Progress
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench
from tests.remote.jobs.orphaned import orphan

ROOT = Path(__file__).parents[3]


def test_FI_42_trainer_and_supervisor_both_gone_is_lost(bench: Bench):
    pid = orphan(bench, "--until", "/never")
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "the trainer's end")
    until(lambda: bench.survey().state is JobState.LOST, "the end that nobody saw")
    assert bench.survey().orphans == ()
    bench.start("--until", "/never", number=2)
    states = [job.state for job in list_jobs(bench.host, PROJECT, bench.run)]
    assert states == [JobState.LOST, JobState.RUNNING], "a job's processes must not be taken for another's of its run"


def test_a_job_killed_with_its_supervisor_is_resumed_from_its_newest_whole_checkpoint(bench: Bench):
    pid = orphan(bench, "--steps", 4, "--save-every", 2, "--until", "/never", steps=8)
    until(lambda: len(bench.events("saved")) == 2, "both checkpoints")
    os.kill(pid, signal.SIGKILL)
    until(lambda: bench.survey().state is JobState.LOST, "the end that nobody saw")
    assert adopt_job(bench.host, PROJECT, bench.run).result.signal == 9
    assert prepare_resume(bench.host, PROJECT, bench.run).checkpoint.step == 4


def test_a_supervisor_killed_before_the_first_step_leaves_a_job_that_trains(bench: Bench):
    held = bench.workdir / "held"
    os.mkfifo(held)
    script = f"open({str(held)!r}).read(); print('trained')"
    spec = replace(bench.spec(), argv=(bench.python, "-c", script))
    started = start_job(bench.host, StartRequest(PROJECT, spec, "tiny")).started
    os.kill(started.pid, signal.SIGKILL)
    until(lambda: not alive(started.pid), "the supervisor's end")
    adopt_job(bench.host, PROJECT, bench.run)
    held.write_bytes(b"go on")
    until(lambda: bench.survey().state is JobState.SUCCEEDED, "the end")
    assert bench.output() == "trained\n"


DIES_BY_PARTS = """
import ctypes, os, sys, threading, time
from remote.payload.files.lock import take_lock
lock = take_lock(sys.argv[1], f"1 {os.getpid()}")
threading.Thread(target=time.sleep, args=(600,)).start()
print("held", flush=True)
sys.stdin.readline()
ctypes.CDLL(None).syscall(NR_EXIT, 0)
"""


def test_a_supervisor_whose_last_thread_still_ends_no_longer_supervises(bench: Bench):
    """The kernel ends the threads of a killed process one by one, and releases its lock after the last."""
    bench.start()
    until(lambda: bench.survey().result, "the end")
    Path(bench.job().result).unlink()
    number = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
    argv = [sys.executable, "-c", DIES_BY_PARTS.replace("NR_EXIT", str(number)), bench.layout.lock]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as dying:
        try:
            assert dying.stdout.readline() == b"held\n"
            _edit_started(bench, pid=dying.pid, start_ticks=read_process(dying.pid).ticks)
            assert supervised(bench.layout, bench.job())
            dying.stdin.write(b"end\n")
            dying.stdin.flush()
            until(lambda: not alive(dying.pid), "the end of the main thread")
            assert holder(bench.layout.lock) == f"1 {dying.pid}"
            assert not supervised(bench.layout, bench.job())
        finally:
            dying.kill()


def _edit_started(bench: Bench, **changes: object) -> None:
    path = Path(bench.job().supervisor)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_space_reserved_by_a_lost_job_is_released_when_another_starts(bench: Bench):
    pid = orphan(bench, "--until", "/never")
    os.kill(pid, signal.SIGKILL)
    until(lambda: bench.survey().state is JobState.LOST, "the job is lost")
    assert Path(bench.job().root, "reserve").exists()
    bench.start("--exit", 0, number=2)
    until(lambda: bench.survey().state is JobState.SUCCEEDED, "the second job's end")
    assert list(Path(bench.layout.root).glob("jobs/*/reserve")) == []


def test_FI_48_after_a_reboot_the_job_is_lost_even_if_its_pid_is_reused(bench: Bench):
    bench.start()
    until(lambda: bench.survey().result, "the end")
    Path(bench.job().result).unlink()
    me = read_process(os.getpid())
    _edit_started(bench, pid=me.pid, start_ticks=me.ticks, child_pid=me.pid, child_start_ticks=me.ticks)
    assert bench.survey().state is JobState.RUNNING
    _edit_started(bench, boot_id="00000000-0000-0000-0000-000000000000", started_unix=1e9)
    bench.silence()
    assert bench.survey().state is JobState.LOST


@pytest.mark.parametrize("began", [1e9, None])
def test_a_job_that_began_before_the_last_boot_was_lost_by_the_restart_of_its_host(bench: Bench, began: float | None):
    bench.start()
    until(lambda: bench.survey().result, "the end")
    Path(bench.job().result).unlink()
    started = bench.survey().started.started_unix
    other_boot = "00000000-0000-0000-0000-000000000000"
    _edit_started(bench, boot_id=other_boot, started_unix=began or started)
    bench.silence()
    run = bench.survey()
    assert (run.state, run.restarted) == (JobState.LOST, began is not None), "a login node has another boot id"
    assert read_news(bench.layout, 1).restarted is run.restarted


def test_the_time_of_a_lost_job_ends_with_its_last_step(bench: Bench):
    bench.start()
    until(lambda: bench.survey().result, "the end")
    Path(bench.job().result).unlink()
    _edit_started(bench, boot_id="00000000-0000-0000-0000-000000000000", started_unix=1e9)
    bench.silence()
    last = read_record(bench.layout.progress, Progress)
    seconds = last.at_unix - 1e9 if last is not None else 0.0
    assert bench.survey().elapsed_s == read_news(bench.layout, 1).elapsed_s == seconds


def test_FI_49_a_reused_pid_is_neither_trusted_nor_signalled(bench: Bench):
    bench.start()
    until(lambda: bench.survey().result, "the end")
    Path(bench.job().result).unlink()
    bystander = os.fork()
    if bystander == 0:
        signal.pause()
        os._exit(0)
    try:
        ticks = read_process(bystander).ticks
        _edit_started(bench, pid=bystander, start_ticks=ticks - 1, child_pid=bystander, child_start_ticks=ticks - 1)
        assert bench.survey().state is JobState.LOST
        stop_job(bench.host, PROJECT, bench.run, grace_s=0)
        assert alive(bystander)
    finally:
        os.kill(bystander, signal.SIGKILL)
        os.waitpid(bystander, 0)


def test_FI_49_a_signal_reaches_only_the_intended_process():
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        process = read_process(child)
        other = type(process)(process.pid, process.parent, process.ticks + 1)
        assert is_alive(child, process.ticks, boot_id())
        assert not is_alive(child, process.ticks + 1, boot_id())
        assert not send_signal(other, signal.SIGKILL)
        assert alive(child)
        assert send_signal(process, signal.SIGKILL)
    finally:
        os.waitpid(child, 0)
    assert not send_signal(process, signal.SIGKILL)
