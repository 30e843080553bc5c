"""The jobs of Slurm that a command has submitted itself, as with `sbatch train.sh`, and that have no process yet."""

from __future__ import annotations

import os
import shutil
import time
from typing import Callable, List, Mapping, Optional, Tuple

from remote.payload.processes.output import read_output

QUEUE_POLL_S = 5.0
QUEUE_DEADLINE_S = 10.0
CANCEL_FOR_S = 30.0


class Queued:
    """The living Slurm jobs of this user whose working folder is inside of `folder`.

    `environment` is that of the command. Nothing is found if its PATH has no squeue. While squeue fails, the jobs that
    it listed last count: a controller that does not answer is no evidence that they have ended.
    """

    def __init__(
        self, folder: str, environment: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = os.path.realpath(folder)
        self._environment = dict(environment)
        self._squeue = shutil.which("squeue", path=environment.get("PATH", ""))
        self._clock = clock
        self._next = 0.0
        self._found: Tuple[str, ...] = ()
        self._cancel_until = 0.0
        self._next_cancel = 0.0

    def read(self) -> Tuple[str, ...]:
        """Return the numbers of the jobs. They are at most QUEUE_POLL_S seconds old."""
        if self._clock() >= self._next:
            self._found = self._read_now()
            self._next = self._clock() + QUEUE_POLL_S
        return self._found

    def cancel(self) -> bool:
        """Cancel the jobs, at most once a second. Return True if some are left, in the first CANCEL_FOR_S seconds."""
        now = self._clock()
        if now >= self._next_cancel:
            self._next_cancel = now + 1.0
            self._found = self._read_now()
            if self._found:
                self._run("scancel", "--", *self._found)
                self._cancel_until = self._cancel_until or now + CANCEL_FOR_S
        return bool(self._found) and now < self._cancel_until

    def _read_now(self) -> Tuple[str, ...]:
        if self._squeue is None:
            return ()
        lines = self._run(self._squeue, "--noheader", "--me", "--format=%A %Z")
        if lines is None:
            return self._found
        rows = [line.partition(" ") for line in lines]
        return tuple(dict.fromkeys(number for number, _, folder in rows if self._is_inside(folder.strip())))

    def _is_inside(self, folder: str) -> bool:
        return f"{os.path.realpath(folder)}/".startswith(f"{self._folder}/") if folder else False

    def _run(self, *argv: str) -> Optional[List[str]]:
        """Return the lines that a program prints, or None if it fails."""
        printed = read_output(argv, QUEUE_DEADLINE_S, self._environment)
        return printed.splitlines() if printed is not None else None
