"""A job's spec, progress and result, and the function that decides its state."""

from __future__ import annotations

from enum import Enum
from typing import Dict, Optional, Tuple

from remote.protocol.dataclass import dataclass, field
from remote.protocol.findings import CheckName
from remote.protocol.gauges import Gauges
from remote.protocol.hidden import Identifier, Message
from remote.protocol.layout import RunId
from remote.protocol.saved import Checkpoint as Checkpoint
from remote.protocol.saved import EventFile as EventFile
from remote.protocol.saved import ResumePoint as ResumePoint
from remote.protocol.values import Verbatim


class JobState(str, Enum):
    """The state of a job. STOPPED: the user ended it. LOST: it has no result and no living supervisor."""

    ABSENT = "absent"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"


@dataclass(frozen=True)
class JobSpec:
    """Everything that the supervisor needs to start one training process. It is written before the process starts.

    `argv` is run in `cwd`. An empty `cwd` is the run's copy of the code; a relative `cwd` is under the workdir. These
    placeholders in `argv` are replaced: {run_dir} {output_dir} {tensorboard_dir} {job_dir} {resume_from} {payload}
    {free_port} {rendezvous}. `environment` is added to the host's environment. The values of the variables in `secrets`
    come from a 0600 file that is deleted after reading. `grace_s` is the time that the job has to save a checkpoint
    when it is stopped. A job without a new step for `stall_after_s` is reported as stalled. `processes` is the number
    of ranks that save a random state into each checkpoint. `hosts` is the number of hosts or Slurm nodes on which the
    job's processes run. `data` maps paths in the code to absolute paths of data. `notify` is the shell command or URL
    for the notification when the job ends. `slurm` contains the sbatch options of the job; `jobs_left` is the number of
    jobs that the supervisor may still queue by itself after Slurm's time limit. `after` lists the folders of the jobs
    that must end first. A job in this list that is also waiting and has a later `turn` is ignored.
    """

    run: Verbatim
    number: int
    fingerprint: Verbatim
    argv: Tuple[Verbatim, ...]
    cwd: Verbatim = ""
    environment: Dict[str, Verbatim] = field(default_factory=dict)
    secrets: Tuple[Verbatim, ...] = ()
    steps: Optional[int] = None
    resume_from: Verbatim = ""
    grace_s: float = 60.0
    stall_after_s: float = 600.0
    processes: int = 1
    hosts: int = 1
    data: Dict[str, Verbatim] = field(default_factory=dict)
    notify: Verbatim = ""
    slurm: Tuple[Verbatim, ...] = ()
    jobs_left: int = 0
    after: Tuple[Verbatim, ...] = ()
    turn: int = 0


@dataclass(frozen=True)
class Started:
    """The supervisor of a job, identified by pid, start time in clock ticks, boot id and pid namespace.

    `machine` is the name of its machine or container. `sigterm`: it has sent a SIGTERM to the job. `has_slurm`: squeue
    answered when the job began, so a later failure of squeue is worth a warning.
    """

    pid: int
    start_ticks: int
    boot_id: Identifier
    child_pid: int = 0
    child_start_ticks: int = 0
    backend: Identifier = "setsid"
    started_unix: float = 0.0
    has_slurm: bool = False
    namespace: Identifier = ""
    machine: Identifier = ""
    sigterm: bool = False


@dataclass(frozen=True)
class JobResult:
    """How a job ended, written as the job's last file.

    `exit` is the exit status, or 128 + `signal` if a signal ended the process. `stopped`: the user stopped the job.
    `preempted`: another SIGTERM or Slurm's time limit ended the job, and a verified checkpoint exists. `disk_full`: the
    job failed and its file system was full. `next_job` is the number of the job that continues the run, or 0.
    """

    exit: int
    signal: int = 0
    stopped: bool = False
    oom_killed: bool = False
    preempted: bool = False
    disk_full: bool = False
    reason: Message = ""
    ended_unix: float = 0.0
    next_job: int = 0


@dataclass(frozen=True)
class Progress:
    """The newest optimizer step that the trainer or the hooks recorded. `at_unix` is the host's time.

    `loss` is the mean over the newest steps (see remote/protocol/loss.py), `best_loss` the lowest of these means, and
    `first_loss` the loss of the first step, over the whole run: a step that was trained again counts once. `began` is
    the step at which this job's training began: 0 if it was not resumed, None if unknown. `pace_seconds` is the mean
    time of a step in this job. `unit` is what `step` counts; `memory` describes the built-in trainer's memory plan.
    """

    step: int
    steps: Optional[int] = None
    loss: Optional[float] = None
    grad_norm: Optional[float] = None
    loss_scale: Optional[float] = None
    skipped_steps: int = 0
    step_seconds: Optional[float] = None
    peak_bytes: Optional[int] = None
    at_unix: float = 0.0
    began: Optional[int] = None
    best_loss: Optional[float] = None
    first_loss: Optional[float] = None
    pace_seconds: Optional[float] = None
    tokens_per_second: Optional[float] = None
    unit: str = "step"
    memory: str = ""


@dataclass(frozen=True)
class WatchNote:
    """A note of the watch about a step. An `error` ended the training. An `info` reports where the training began."""

    check: CheckName
    severity: Identifier
    message: Message
    step: int
    at_unix: float = 0.0


@dataclass(frozen=True)
class RunSurvey:
    """One run on the host, with the state of its newest job.

    `progress` is the last progress of an earlier job if the newest job resumed and ended without a step. `elapsed_s` is
    the time from the job's start to its end or to now, and `earlier_s` is the time of the earlier jobs. `waits` is the
    reason why the job is queued: its state is RUNNING, but it has not begun. `slurm_end` is the state in which a job
    without a result left Slurm's queue, or "" if it is unknown. `fingerprint` is the digest of the inputs of the first
    job, and `newest_fingerprint` that of the newest job, which may have resumed with other inputs. `restarted` is True
    if the job is lost and its host was restarted after the job began. `own_files` are the newest files with weights
    that the script saved in its own format, if the run has ended early without a verified checkpoint.
    """

    run: RunId
    config: Identifier
    fingerprint: Identifier
    job: int
    state: JobState
    started: Optional[Started] = None
    result: Optional[JobResult] = None
    progress: Optional[Progress] = None
    checkpoints: Tuple[Checkpoint, ...] = ()
    events: Tuple[EventFile, ...] = ()
    adapter_sha256: Identifier = ""
    orphans: Tuple[int, ...] = ()
    stalled: bool = False
    created_unix: float = 0.0
    warnings: Tuple[Message, ...] = ()
    watched: Tuple[WatchNote, ...] = ()
    gauges: Gauges = field(default_factory=Gauges)
    elapsed_s: Optional[float] = None
    waits: Message = ""
    slurm_end: Identifier = ""
    earlier_s: float = 0.0
    newest_fingerprint: Identifier = ""
    restarted: bool = False
    own_files: Tuple[Message, ...] = ()

    @property
    def has_begun(self) -> bool:
        """Return False if the newest job is queued, or was stopped in the queue, so that it has no output."""
        return self.started is not None or self.state in (JobState.FAILED, JobState.SUCCEEDED, JobState.LOST)

    @property
    def shown_state(self) -> str:
        """Return the state in one word. A RUNNING job that has not begun is `queued`."""
        return "queued" if self.state is JobState.RUNNING and self.waits else self.state.value

    @property
    def run_elapsed_s(self) -> Optional[float]:
        """The time of all jobs of the run, or None if no job has started."""
        return _sum_of_jobs(self.elapsed_s, self.earlier_s)


@dataclass(frozen=True)
class StartAnswer:
    """The current state of one job. `fresh` is True if this request started it; `notes` then describe the start.

    In a list of jobs, `first_step` and `last_step` are the steps at which the job began and ended, or None if unknown.
    """

    run: RunId
    number: int
    state: JobState
    fresh: bool
    started: Optional[Started] = None
    result: Optional[JobResult] = None
    first_step: Optional[int] = None
    last_step: Optional[int] = None
    notes: Tuple[Message, ...] = ()


@dataclass(frozen=True)
class JobNews:
    """The state, progress and gauges of a job, sent when a value changes. The state in the last message is not RUNNING.

    `elapsed_s` is the time from the job's start to its end, or to the sending of this message. `progress`, `waits`,
    `slurm_end`, `earlier_s` and `restarted` are as in `RunSurvey`.
    """

    number: int
    state: JobState
    progress: Optional[Progress] = None
    result: Optional[JobResult] = None
    stalled: bool = False
    watched: Tuple[WatchNote, ...] = ()
    gauges: Gauges = field(default_factory=Gauges)
    elapsed_s: Optional[float] = None
    waits: Message = ""
    slurm_end: Identifier = ""
    earlier_s: float = 0.0
    restarted: bool = False

    @property
    def run_elapsed_s(self) -> Optional[float]:
        """The time of all jobs of the run, or None if no job has started."""
        return _sum_of_jobs(self.elapsed_s, self.earlier_s)


def _sum_of_jobs(elapsed_s: Optional[float], earlier_s: float) -> Optional[float]:
    return elapsed_s + earlier_s if elapsed_s is not None else earlier_s or None


def judge_state(*, started: Optional[Started], result: Optional[JobResult], alive: bool) -> JobState:
    """Decide the state of a job from its records on the host. A lost connection is no evidence of a dead job.

    `alive` is True if the supervisor holds its kernel lock, or if the process with the recorded pid, start time and
    boot id lives.
    """
    if result is not None and result.stopped:
        return JobState.STOPPED
    if result is not None:
        ended_well = result.exit == 0 and not (result.signal or result.preempted)
        return JobState.SUCCEEDED if ended_well else JobState.FAILED
    if started is None and not alive:
        return JobState.ABSENT
    return JobState.RUNNING if alive else JobState.LOST


def seconds_elapsed(started: Optional[Started], result: Optional[JobResult], now: float) -> Optional[float]:
    """Return the seconds that a job has run, or None if it has not started or its start time is not recorded."""
    if started is None or not started.started_unix:
        return None
    return max(0.0, ((result.ended_unix if result is not None else 0.0) or now) - started.started_unix)


def seconds_left(progress: Optional[Progress]) -> Optional[float]:
    """Return the seconds that the remaining steps will take, or None if the pace or the number of steps is unknown."""
    pace = (progress.pace_seconds or progress.step_seconds) if progress is not None else None
    if progress is None or pace is None or not progress.steps:
        return None
    return pace * max(0, progress.steps - progress.step)
