"""Processes of other users are never a job of this user, although root can read their environment."""

from __future__ import annotations

import contextlib
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from remote.payload.jobs.orphans import orphans_of
from remote.payload.processes.identity import read_command, read_environment
from remote.payload.processes.marked import SETTLED_S, Marked, marked_processes
from remote.protocol.layout import JobLayout, RunLayout
from tests.lab.wait import until

MARKS = ("HALFSTEP_RUN_DIR=/nowhere/run", "HALFSTEP_JOB=1")


@contextlib.contextmanager
def running(user: int | None) -> Iterator[int]:
    """Start a process with the marks, and yield its pid. It ends when its input does."""
    environment = dict(mark.split("=") for mark in MARKS)
    with subprocess.Popen(
        ["/bin/cat"], env=environment, user=user, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"x")
        process.stdin.flush()
        assert process.stdout.read(1) == b"x"
        yield process.pid


@pytest.mark.root
def test_SE_a_process_of_another_user_with_the_marks_of_a_job_is_not_found(account: Callable[..., str]) -> None:
    with running(pwd.getpwnam(account()).pw_uid), running(None) as own:
        assert [process.pid for process in marked_processes(*MARKS)] == [own]
        assert [process.pid for process in Marked(*MARKS).read()] == [own]


@pytest.mark.root
def test_SE_a_job_of_which_only_another_user_has_a_process_has_no_orphan(account: Callable[..., str]) -> None:
    run, job = RunLayout("/nowhere/run"), JobLayout("/nowhere/run/jobs/1")
    with running(pwd.getpwnam(account()).pw_uid):
        assert orphans_of(run, job) == []
    with running(None) as own:
        assert [process.pid for process in orphans_of(run, job)] == [own]


def test_a_process_that_gets_the_marks_after_its_start_is_found_by_a_repeated_call() -> None:
    marked = Marked(*MARKS)
    command = "read line; exec env HALFSTEP_RUN_DIR=/nowhere/run HALFSTEP_JOB=1 cat"
    with subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert marked.read() == []
        process.stdin.write(b"\n")
        process.stdin.flush()
        until(lambda: [one.pid for one in marked.read()] == [process.pid], "the marks")
        process.stdin.close()
    assert marked.read() == []


def test_only_marked_processes_are_read_again_once_they_have_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    now, read = 0.0, set[int]()

    def read_noting(pid: int) -> tuple[bytes, ...]:
        read.add(pid)
        return read_environment(pid)

    monkeypatch.setattr("remote.payload.processes.marked.read_environment", read_noting)
    marked = Marked(*MARKS, clock=lambda: now)
    with running(None) as own, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        for now in (0.0, SETTLED_S, 2 * SETTLED_S, 3 * SETTLED_S):
            read.clear()
            assert [process.pid for process in marked.read()] == [own]
            assert own in read and (other.pid in read) is (now <= SETTLED_S)


def test_marked_processes_are_found_after_a_pause_of_the_reader() -> None:
    now = 0.0
    marked = Marked(*MARKS, clock=lambda: now)
    with running(None) as own:
        assert [process.pid for process in marked.read()] == [own]
        now = 100 * SETTLED_S
        assert [process.pid for process in marked.read()] == [own]


@pytest.mark.root
def test_SE_a_setuid_program_that_another_user_started_with_the_marks_is_not_found(account: Callable[..., str]) -> None:
    user = pwd.getpwnam(account()).pw_uid
    become_root = f"import os; os.setresuid({user}, 0, 0); os.execv('/bin/cat', ['cat'])"
    environment = dict(mark.split("=") for mark in MARKS)
    with subprocess.Popen([sys.executable, "-c", become_root], env=environment, stdin=subprocess.PIPE) as process:
        until(lambda: read_command(process.pid) == b"cat\0", "the program")
        assert marked_processes(*MARKS) == []
        assert Marked(*MARKS).read() == []
