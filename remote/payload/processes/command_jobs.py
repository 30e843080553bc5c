"""The jobs of Slurm that a command has submitted itself, as with `sbatch train.sh`."""

from __future__ import annotations

import os
import shutil
import time
from typing import Callable, Collection, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from remote.payload.processes.output import read_output
from remote.payload.processes.slurm_queue import SQUEUE, is_living, without_filters

QUEUE_POLL_S = 5.0
QUEUE_DEADLINE_S = 10.0
CANCEL_FOR_S = 30.0
ANSWER_IN_S = 300.0
"""The time for which a job whose command has ended waits for an answer of squeue."""
CLOCK_TOLERANCE_S = 2.0
COMPLETED = "COMPLETED"
CONTINUED = ("TIMEOUT", "PREEMPTED", "NODE_FAIL")
"""Ends after which scripts submit a job that continues the work."""


class CommandJob(NamedTuple):
    """A job of Slurm, or a task of an array. `submitted_unix` is the time in seconds since 1970."""

    number: str
    state: str
    submitted_unix: float


class CommandJobs:
    """The Slurm jobs of this user whose working folder is inside of `folder`.

    `environment` is that of the command. Nothing is found if its PATH has no squeue. While squeue fails, the jobs that
    it listed last count: a controller that does not answer is no evidence that they have ended. Jobs that were
    submitted before `since_unix` (seconds since 1970) and have ended are ignored. `own` are the numbers of
    the Slurm jobs in which halfstep runs the command itself. `known` are the numbers that were found earlier,
    or None if squeue has not answered yet.
    """

    def __init__(
        self,
        folder: str,
        environment: Mapping[str, str],
        since_unix: float = 0.0,
        own: Collection[str] = (),
        known: Optional[Iterable[str]] = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = os.path.realpath(folder)
        self._environment = {**without_filters(environment), "SLURM_TIME_FORMAT": "%s"}
        self._own = own
        self._since_unix = since_unix - CLOCK_TOLERANCE_S
        self._clock = clock
        self._known = dict.fromkeys(known or ())
        self._jobs: Dict[str, CommandJob] = {}
        self._next = 0.0
        self._cancel_until = 0.0
        self._next_cancel = 0.0
        self._squeue = shutil.which(SQUEUE[0], path=environment.get("PATH", ""))
        self._has_answered = known is not None
        self._failing_since: Optional[float] = None
        self._look()

    @property
    def answers(self) -> bool:
        """True if squeue is installed and has answered the last time."""
        return self._has_answered and self._failing_since is None

    @property
    def living(self) -> Tuple[str, ...]:
        """The numbers of the jobs that had not ended when squeue last answered."""
        return tuple(job.number for job in self._jobs.values() if is_living(job.state))

    @property
    def unanswered(self) -> bool:
        """True if squeue failed the last time, but not every time: there may be more jobs."""
        return self._has_answered and self._failing_since is not None

    @property
    def undecided(self) -> bool:
        """True if squeue has failed for less than ANSWER_IN_S seconds, so that its answer is awaited."""
        return self.unanswered and self._clock() - (self._failing_since or 0.0) < ANSWER_IN_S

    @property
    def failed(self) -> Tuple[CommandJob, ...]:
        """The jobs that ended without success.

        A job that was preempted, or that reached its time limit, does not count if a later one has completed.
        """
        ended = [job for job in self._jobs.values() if not is_living(job.state)]
        completed = max((job.submitted_unix for job in ended if job.state == COMPLETED), default=-1.0)
        return tuple(
            job
            for job in ended
            if job.state != COMPLETED and not (job.state in CONTINUED and job.submitted_unix <= completed)
        )

    @property
    def known(self) -> Tuple[str, ...]:
        """The numbers of all jobs that the command has submitted."""
        return tuple(self._known)

    @property
    def unlisted(self) -> Tuple[str, ...]:
        """The numbers of the jobs that ended without being listed as ended: some minutes later, squeue omits them."""
        return tuple(number for number in self._known if number not in self._jobs)

    def read(self) -> Tuple[str, ...]:
        """Return the numbers of the living jobs. They are at most QUEUE_POLL_S seconds old."""
        if self._clock() >= self._next:
            self._look()
            self._next = self._clock() + QUEUE_POLL_S
        return self.living

    def cancel(self) -> bool:
        """Cancel the jobs, at most once a second.

        Return True in the first CANCEL_FOR_S seconds, if some are left or squeue does not answer.
        """
        now = self._clock()
        if now >= self._next_cancel:
            self._look()
            if self.living:
                self._run("scancel", "--", *self.living)
            self._cancel_until = self._cancel_until or self._clock() + CANCEL_FOR_S
            self._next_cancel = self._clock() + 1.0
        return (bool(self.living) or self.unanswered) and self._clock() < self._cancel_until

    def _look(self) -> None:
        """Read the queue, if there is one."""
        if self._squeue is None:
            return
        lines = self._run(self._squeue, *SQUEUE[1:], "--me", "--states=all", "--format=%A %T %V %Z")
        if lines is None:
            self._failing_since = self._clock() if self._failing_since is None else self._failing_since
            return
        self._has_answered, self._failing_since = True, None
        found = {job.number: job for job in filter(None, map(self._parse, lines))}
        self._known.update((job.number, None) for job in found.values() if job.submitted_unix >= self._since_unix)
        ended = {number: job for number, job in self._jobs.items() if not is_living(job.state)}
        self._jobs = {**ended, **found}

    def _parse(self, line: str) -> Optional[CommandJob]:
        """Return the job in a line of squeue, or None for a job of another folder, or of an earlier command."""
        number, state, submitted, folder = (*line.split(" ", 3), "", "", "")[:4]
        inside = folder.strip() and f"{os.path.realpath(folder.strip())}/".startswith(f"{self._folder}/")
        if not inside or number in self._own or not number.isdigit():
            return None
        submitted_unix = float(submitted) if submitted.isdigit() else 0.0
        if not is_living(state) and submitted_unix < self._since_unix:
            return None
        return CommandJob(number, state, submitted_unix)

    def _run(self, *argv: str) -> Optional[List[str]]:
        """Return the lines that a program prints, or None if it fails."""
        printed = read_output(argv, QUEUE_DEADLINE_S, self._environment)
        return printed.splitlines() if printed is not None else None
