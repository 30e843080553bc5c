"""The parent of a job's first process: it outlives the supervisor and keeps the exit status that only a parent gets."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn, Optional

from remote.payload.files.records import read_record, write_record
from remote.protocol.layout import JobLayout

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Exit:
    """How a job's first process ended: wait(2)'s status."""

    status: int


def exit_path(job: JobLayout) -> str:
    return f"{job.root}/exit.json"


def read_exit(job: JobLayout) -> Optional[int]:
    """wait(2)'s status of the job's first process; None while it runs, and where its witness was killed."""
    seen = read_record(exit_path(job), Exit)
    return seen.status if seen is not None else None


def fork_witnessed(job: JobLayout) -> None:
    """Returns in a new child only; the calling process waits for it, records its exit status and ends the same way."""
    trainer = 0

    def forward(number: int, frame: Optional[FrameType]) -> None:
        if trainer:
            os.kill(trainer, number)

    # execve resets handlers to the default, so the trainer starts without them.
    for number in FORWARDED:
        signal.signal(number, forward)
    trainer = os.fork()
    if trainer == 0:
        os.setsid()
        return
    _release_descriptors()
    _, status = os.waitpid(trainer, 0)
    trainer = 0
    with contextlib.suppress(OSError):
        write_record(exit_path(job), Exit(status))
    _end_like(status)


def _release_descriptors() -> None:
    """The supervisor's lock and its pipes are its own: held here, they would outlive it."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    for name in os.listdir("/dev/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _end_like(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)
