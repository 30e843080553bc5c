"""The exit codes of all commands and jobs, published in docs/exit-codes.md."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """One number for each kind of outcome. Scripts may rely on these numbers."""

    OK = 0
    WOULD_CHANGE = 1
    USAGE = 2
    CONNECT = 10
    AUTH = 11
    HOST_KEY = 12
    ENVIRONMENT = 20
    GPU = 21
    DISK = 22
    PRECISION = 23
    SYNC = 30
    FIXER = 31
    TRAINING = 40
    JOB_LOST = 41
    PREEMPTED = 42
    CHECKPOINT = 43
    PULL = 50
    BUSY = 60
    BUG = 70
    TEMPORARY = 75
    INTERRUPTED = 130
