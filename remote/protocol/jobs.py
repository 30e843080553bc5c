"""A job's spec, its result, its progress, and the one judgement of what state it is in."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Dict, Optional, Tuple


class JobState(str, Enum):
    """What is known of a job. LOST: it started, left no result, and nobody is alive to write one."""

    ABSENT = "absent"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True)
class JobSpec:
    """Everything the supervisor needs to start one training process; written before it starts.

    `argv` is run in `cwd` (both POSIX paths on the host, absolute). `environment` is added to the host's own; names in
    `secrets` are filled from a 0600 file that is unlinked once read. `grace_s` is the time to checkpoint after a stop.
    """

    run: str
    number: int
    fingerprint: str
    argv: Tuple[str, ...]
    cwd: str
    environment: Dict[str, str] = field(default_factory=dict)
    secrets: Tuple[str, ...] = ()
    steps: Optional[int] = None
    resume_from: str = ""
    grace_s: float = 60.0
    stall_after_s: float = 600.0


@dataclass(frozen=True)
class Started:
    """Who runs a job: enough to never mistake another process for it (pid, start time in clock ticks, boot id)."""

    pid: int
    start_ticks: int
    boot_id: str
    child_pid: int = 0
    child_start_ticks: int = 0
    backend: str = "setsid"
    started_unix: float = 0.0


@dataclass(frozen=True)
class JobResult:
    """How a job ended; written whole, last. `exit` as wait(2) tells it, `signal` where one ended it."""

    exit: int
    signal: int = 0
    stopped: bool = False
    oom_killed: bool = False
    preempted: bool = False
    reason: str = ""
    ended_unix: float = 0.0


@dataclass(frozen=True)
class Progress:
    """The newest optimizer step that the trainer or our hooks wrote; `at_unix` is the host's clock."""

    step: int
    steps: Optional[int] = None
    loss: Optional[float] = None
    grad_norm: Optional[float] = None
    loss_scale: Optional[float] = None
    skipped_steps: int = 0
    step_seconds: Optional[float] = None
    peak_bytes: Optional[int] = None
    at_unix: float = 0.0


@dataclass(frozen=True)
class Checkpoint:
    """A trainer checkpoint as its SHA-256 manifest tells it; `problem` is empty when every digest agrees."""

    name: str
    step: int
    bytes: int = 0
    problem: str = ""


@dataclass(frozen=True)
class EventFile:
    """One TensorBoard file of a run: name relative to the run's folder, size in whole records, identity."""

    name: str
    size_bytes: int
    inode: int = 0
    head_sha256: str = ""


@dataclass(frozen=True)
class RunSurvey:
    """One run as it lies on the host, its newest job judged there by `judge_state`."""

    run: str
    config: str
    fingerprint: str
    job: int
    state: JobState
    started: Optional[Started] = None
    result: Optional[JobResult] = None
    progress: Optional[Progress] = None
    checkpoints: Tuple[Checkpoint, ...] = ()
    events: Tuple[EventFile, ...] = ()
    adapter_sha256: str = ""
    orphans: Tuple[int, ...] = ()
    stalled: bool = False
    output_bytes: int = 0
    created_unix: float = 0.0


def judge_state(*, started: Optional[Started], result: Optional[JobResult], alive: bool) -> JobState:
    """The state of a job from its evidence on the host; unreachable is never an input here.

    `alive`: the supervisor's kernel lock is held, or a process with the recorded pid, start time and boot id lives.
    """
    if result is not None:
        return JobState.SUCCEEDED if result.exit == 0 and not result.signal and not result.stopped else JobState.FAILED
    if started is None and not alive:
        return JobState.ABSENT
    return JobState.RUNNING if alive else JobState.LOST
