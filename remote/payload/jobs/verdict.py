"""Judge from evidence how a job ended. Pure."""

from __future__ import annotations

import os
import re
import signal
from typing import Optional, Tuple

from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobResult, Progress


@dataclass(frozen=True)
class Evidence:
    """The evidence of a job's end. `status` is the wait(2) status, or None if it is unknown.

    `stop_requested`: the operation `job.stop` was called. `sigterm_received`: the supervisor or the launcher received a
    SIGTERM. `at_time_limit`: Slurm signalled that the time limit is near. `checkpoint`: the name of the newest verified
    checkpoint. `adapter`: this job saved an adapter. `unkillable`: the number of processes that survived SIGKILL.
    `disk_full`: the file system of the run had no space left when the job had ended. `rank_failed`: on several nodes,
    torchrun reported the end of a rank by an error or by another signal than SIGTERM. `refused`: why the supervisor
    ended the job, which must not go on. `slurm_left`: the jobs that the command has submitted to
    Slurm itself and that have not ended.
    """

    status: Optional[int]
    stop_requested: bool = False
    sigterm_received: bool = False
    at_time_limit: bool = False
    oom_kills: int = 0
    checkpoint: str = ""
    progress: Optional[Progress] = None
    steps: Optional[int] = None
    adapter: bool = False
    unkillable: int = 0
    disk_full: bool = False
    rank_failed: bool = False
    refused: str = ""
    slurm_left: Tuple[int, ...] = ()


DISK_FULL = "; the file system of the run is full, so that the output may end before the error"

# torch/distributed/elastic/multiprocessing/api.py: torchrun reports a SIGTERM with this line and exit status 1.
LAUNCHER_SIGTERM = re.compile(rb"SignalException: Process \d+ got signal: 15\b")


# The report of torchrun's ChildFailedError. A rank that SIGTERM ends has the status -15, 143, or the trainer's own.
RANK_FAILED = re.compile(rb"exitcode +: (?!(?:-15|0|%d|%d) )-?\d+ \(pid: " % (ExitCode.PREEMPTED, 128 + signal.SIGTERM))


def has_failed_rank(output_tail: bytes) -> bool:
    """Return True if the end of the output contains torchrun's report of a rank that no SIGTERM ended."""
    return RANK_FAILED.search(output_tail) is not None


def launcher_got_sigterm(output_tail: bytes) -> bool:
    """Return True if the end of the output contains torchrun's message that a SIGTERM ended torchrun."""
    return LAUNCHER_SIGTERM.search(output_tail) is not None


def judge_end(seen: Evidence, now: float) -> JobResult:
    """Return the result to write. A job that completed every step before a signal took effect has succeeded."""
    if seen.refused:
        return JobResult(1, ended_unix=now, reason=seen.refused + _leftovers(seen))
    exit_code, number = _exit_code_and_signal(seen)
    complete = exit_code == 0 and (_all_steps(seen) or not (seen.stop_requested or seen.sigterm_received))
    if complete:
        return JobResult(0, ended_unix=now, reason=_leftovers(seen))
    if seen.stop_requested:
        return JobResult(
            exit_code, number, stopped=True, reason="stopped on request" + _leftovers(seen), ended_unix=now
        )
    if _ended_by_sigterm(seen, exit_code):
        has_checkpoint = bool(seen.checkpoint)
        outcome = f"{seen.checkpoint} is kept" if has_checkpoint else "before a checkpoint was complete"
        # A trainer may exit with 0 after SIGTERM. Without a checkpoint, only the signal shows that work is missing.
        number = number or (0 if has_checkpoint or exit_code else int(signal.SIGTERM))
        cause = "before Slurm's time limit" if seen.at_time_limit else "by SIGTERM"
        reason = f"ended {cause}; {outcome}" + _leftovers(seen)
        return JobResult(exit_code, number, preempted=has_checkpoint, reason=reason, ended_unix=now)
    if seen.oom_kills > 0:
        outcome = "killed by the kernel's out-of-memory killer: host memory, not GPU memory"
        return JobResult(exit_code, number, oom_killed=True, reason=outcome, ended_unix=now)
    reason = _reason(seen, exit_code, number) + (DISK_FULL if seen.disk_full else "") + _leftovers(seen)
    return JobResult(exit_code, number, disk_full=seen.disk_full, reason=reason, ended_unix=now)


def _ended_by_sigterm(seen: Evidence, exit_code: int) -> bool:
    reports_sigterm = exit_code in (ExitCode.PREEMPTED, 128 + signal.SIGTERM)
    return seen.sigterm_received or (reports_sigterm and not seen.rank_failed)


def _exit_code_and_signal(seen: Evidence) -> Tuple[int, int]:
    if seen.status is None:
        return (0 if _all_steps(seen) and seen.adapter and not seen.slurm_left else 1), 0
    code = os.waitstatus_to_exitcode(seen.status)
    if code == 0 and seen.slurm_left:
        return 1, 0
    return (code, 0) if code >= 0 else (128 - code, -code)


def _all_steps(seen: Evidence) -> bool:
    progress = seen.progress
    steps = seen.steps if seen.steps is not None or progress is None else progress.steps
    return steps is not None and progress is not None and progress.step >= steps


def _reason(seen: Evidence, exit_code: int, number: int) -> str:
    if seen.status is None:
        return "ended after its supervisor was killed: its exit status is unknown and its work is not complete"
    if seen.slurm_left:
        return "the command submitted the work to Slurm, and halfstep does not follow it there"
    if number:
        return f"ended by signal {number} ({signal.Signals(number).name})"
    return f"exit status {exit_code}"


def _leftovers(seen: Evidence) -> str:
    left = ""
    if seen.unkillable:
        left = f"; {seen.unkillable} of its processes cannot be killed (another user's, or stuck in the kernel)"
    if seen.slurm_left:
        left += f"; its jobs in Slurm still run: {', '.join(map(str, seen.slurm_left))}"
    return left
