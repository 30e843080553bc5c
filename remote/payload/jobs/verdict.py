"""How a job ended, judged from the evidence; touches nothing."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
from typing import Optional, Tuple

from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobResult, Progress


@dataclass(frozen=True)
class Evidence:
    """What the supervisor saw. `status` is wait(2)'s; None where the process was adopted and could not be waited for.

    `asked`: job.stop asked. `told`: a SIGTERM came to the supervisor. `checkpoint`: name of the newest verified one.
    """

    status: Optional[int]
    asked: bool = False
    told: bool = False
    oom_kills: int = 0
    checkpoint: str = ""
    progress: Optional[Progress] = None
    steps: Optional[int] = None
    adapter: bool = False
    left: int = 0


# torch/distributed/elastic/multiprocessing/api.py: torchrun turns a SIGTERM into this and an exit status of 1.
LAUNCHER_TOLD = re.compile(rb"SignalException: Process \d+ got signal: 15\b")


def launcher_was_told(output_tail: bytes) -> bool:
    """torchrun says at the end of the output that a SIGTERM ended it."""
    return LAUNCHER_TOLD.search(output_tail) is not None


def judge_end(seen: Evidence, now: float) -> JobResult:
    """The result to write. A job that finished all its work while a signal was on its way succeeded."""
    exit_code, number = _decode(seen)
    complete = exit_code == 0 and (_all_steps(seen) or not (seen.asked or seen.told))
    if complete:
        return JobResult(0, ended_unix=now, reason=_leftovers(seen))
    if seen.asked:
        return JobResult(exit_code, number, stopped=True, reason="stopped as asked" + _leftovers(seen), ended_unix=now)
    if seen.told or exit_code in (ExitCode.PREEMPTED, 128 + signal.SIGTERM):
        kept = bool(seen.checkpoint)
        words = f"{seen.checkpoint} is kept" if kept else "before a checkpoint was whole"
        # A trainer may leave with 0 when told to end; without a checkpoint only the signal says that work is missing.
        number = number or (0 if kept or exit_code else int(signal.SIGTERM))
        return JobResult(exit_code, number, preempted=kept, reason=f"ended by SIGTERM; {words}", ended_unix=now)
    if seen.oom_kills > 0:
        words = "the kernel's out-of-memory killer ended it: host memory, not the card's"
        return JobResult(exit_code, number, oom_killed=True, reason=words, ended_unix=now)
    return JobResult(exit_code, number, reason=_words(seen, exit_code, number) + _leftovers(seen), ended_unix=now)


def _decode(seen: Evidence) -> Tuple[int, int]:
    if seen.status is None:
        return (0 if _all_steps(seen) and seen.adapter else 1), 0
    code = os.waitstatus_to_exitcode(seen.status)
    return (code, 0) if code >= 0 else (128 - code, -code)


def _all_steps(seen: Evidence) -> bool:
    progress = seen.progress
    steps = seen.steps if seen.steps is not None or progress is None else progress.steps
    return steps is not None and progress is not None and progress.step >= steps


def _words(seen: Evidence, exit_code: int, number: int) -> str:
    if seen.status is None:
        return "ended after its supervisor was killed, so its exit status is unknown; its work was not complete"
    if number:
        return f"ended by signal {number} ({signal.Signals(number).name})"
    return f"exit status {exit_code}"


def _leftovers(seen: Evidence) -> str:
    return f"; {seen.left} of its processes cannot be killed (stuck in the kernel)" if seen.left else ""
