"""Requests that start a job, the record of its run, and the answer to a stop."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from remote.protocol.dataclass import dataclass, field
from remote.protocol.hidden import Identifier
from remote.protocol.jobs import JobResult, JobSpec, JobState
from remote.protocol.layout import RunId


@dataclass(frozen=True)
class RunRecord:
    """The settings of a run, written once before its first job. `settings` is stored as the laptop sent it."""

    run: str
    config: str
    fingerprint: str
    created_unix: float = 0.0
    settings: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StartRequest:
    """Start one job.

    `backend` is auto, setsid, systemd or slurm. If `fresh_code` is True, the project's tree is copied again even if the
    run has a copy. If `queue` is True, the job waits on the host until the jobs that use the same cards have ended. If
    `hold` is True, the job is only prepared; an `ArrayRequest` submits it to Slurm with other jobs. `slurm` contains
    options of sbatch, and `max_jobs` is the number of jobs into which Slurm's time limit may divide the run. `secrets`
    maps names to values. The values are written only to the 0600 file that the supervisor deletes.
    """

    project: str
    spec: JobSpec
    config: str = ""
    settings: Dict[str, Any] = field(default_factory=dict)
    secrets: Dict[str, str] = field(default_factory=dict)
    backend: str = "auto"
    slurm: Tuple[str, ...] = ()
    fresh_code: bool = False
    max_jobs: int = 1
    queue: bool = False
    hold: bool = False


@dataclass(frozen=True)
class StopAnswer:
    """The run's newest job after a stop. `left` contains pids that survived SIGKILL, because the driver hangs.

    `slurm_left`: the jobs that the command submitted and whose end Slurm has not confirmed, None without an answer.
    `elsewhere`: the other machine or container with the same files on which the job still runs, or "".
    """

    run: RunId
    number: int
    state: JobState
    result: Optional[JobResult] = None
    left: Tuple[int, ...] = ()
    slurm_left: Optional[Tuple[int, ...]] = ()
    elsewhere: Identifier = ""
