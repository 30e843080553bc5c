"""The exit recorder: the parent of a job's first process.

It records the exit status even if the supervisor has died.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from types import FrameType
from typing import NoReturn, Optional

from remote.payload.files.records import read_record, write_record
from remote.payload.jobs.records import Exit
from remote.payload.processes.subreaper import become_subreaper
from remote.protocol.jobs import Started
from remote.protocol.layout import JobLayout

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def read_exit(job: JobLayout) -> Optional[int]:
    """Return the wait(2) status of the job's first process.

    Returns None while the process runs, and also if its exit recorder was killed.
    """
    recorded = read_record(job.exit, Exit)
    return recorded.status if recorded is not None else None


def received_sigterm(job: JobLayout) -> bool:
    """Return True if the supervisor or the exit recorder received a SIGTERM, which may be the last that is known."""
    started, recorded = read_record(job.supervisor, Started), read_record(job.exit, Exit)
    return (started is not None and started.sigterm) or (recorded is not None and recorded.sigterm)


def fork_recorded(job: JobLayout) -> None:
    """Fork, and return only in the child.

    The parent waits for the child, records the child's status and exits with the same status. If its supervisor was
    killed, it first waits for the other processes of the job, which a new supervisor finds below it.
    """
    trainer, terminated, supervisor = 0, False, os.getppid()

    def forward(number: int, frame: Optional[FrameType]) -> None:
        nonlocal terminated
        terminated |= number == signal.SIGTERM
        if trainer:
            os.kill(trainer, number)

    # execve resets signal handlers to the default, so the trainer starts without them.
    for number in FORWARDED:
        signal.signal(number, forward)
    # A process of the job may have an environment without the job's marks. Its parent may end before it.
    become_subreaper()
    trainer = os.fork()
    if trainer == 0:
        # The session remains that of this process's parent, which is on record: no process of the job can hide it.
        os.setpgid(0, 0)
        return
    _release_output()
    status = _await(trainer)
    trainer = 0
    with contextlib.suppress(OSError):
        write_record(job.exit, Exit(status, terminated))
        if os.getppid() != supervisor:
            _await_all()
    _end_like(status)


def _await(trainer: int) -> int:
    """Return the trainer's status. Reaps every other process whose parent has ended."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == trainer:
            return status


def _await_all() -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _release_output() -> None:
    """Close the job's output in this process, so that readers see its end once the trainer has closed it."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.close(null)


def _end_like(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)
