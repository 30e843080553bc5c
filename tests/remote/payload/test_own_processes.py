"""Processes of other users are never a job of this user, although root can read their environment."""

from __future__ import annotations

import contextlib
import pwd
import subprocess
from collections.abc import Callable, Iterator

import pytest

from remote.payload.jobs.orphans import orphans_of
from remote.payload.processes.identity import marked_processes
from remote.protocol.layout import JobLayout, RunLayout

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


@pytest.mark.root
def test_SE_a_job_of_which_only_another_user_has_a_process_has_no_orphan(account: Callable[..., str]) -> None:
    run, job = RunLayout("/nowhere/run"), JobLayout("/nowhere/run/jobs/1")
    with running(pwd.getpwnam(account()).pw_uid):
        assert orphans_of(run, job) == []
    with running(None) as own:
        assert [process.pid for process in orphans_of(run, job)] == [own]
