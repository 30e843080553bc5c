"""The JSON records in a job's folder that only the host reads and writes."""

from __future__ import annotations

from typing import Tuple

from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Exit:
    """exit.json: the wait(2) status of a job's first process, and whether its parent forwarded a SIGTERM to it."""

    status: int
    sigterm: bool = False


@dataclass(frozen=True)
class StopRequest:
    """stop.json: a request to end the job, with `grace_s` seconds of time to save a checkpoint.

    The file is written before the SIGTERM is sent.
    """

    grace_s: float
    at_unix: float = 0.0


@dataclass(frozen=True)
class Flags:
    """flags.json: warnings about a running job, rewritten whenever they change."""

    stalled: bool = False
    warnings: Tuple[str, ...] = ()
    at_unix: float = 0.0


@dataclass(frozen=True)
class Queued:
    """queued.json: the supervisor that waits for the turn of its job."""

    pid: int
    start_ticks: int
    boot_id: str
    namespace: str = ""


@dataclass(frozen=True)
class Submitted:
    """submitted.json: the job's number in Slurm.

    Until sbatch has answered, `name` is the name of the submitted job, and `slurm_job` is empty, or the suffix of a
    task of an array, such as _2.
    """

    slurm_job: str
    at_unix: float = 0.0
    name: str = ""
