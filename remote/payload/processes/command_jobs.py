"""The jobs of Slurm that a command has submitted itself, as with `sbatch train.sh`. They are not part of a run."""

from __future__ import annotations

import os
import shutil
import time
from typing import Callable, Collection, List, Mapping, NamedTuple, Optional, Tuple

from remote.payload.processes.output import read_bytes, read_output
from remote.payload.processes.slurm_queue import SQUEUE, is_living, without_filters

SUBMITS = "command-submits-jobs"
"""The name of the finding about a command that has submitted jobs."""
QUEUE_DEADLINE_S = 10.0
CANCEL_FOR_S = 60.0
"""Longer than Slurm's usual KillWait, the time in which a cancelled job may save a checkpoint."""
CANCEL_EVERY_S = 1.0
COLUMNS = (32, 16, 32, 256, 4096)
"""The widths, in bytes, of a job's number, whether it is a batch job, its state, name and working folder."""
FORMAT = ",".join(map("{}:{}".format, ("JobID", "BatchFlag", "State", "Name", "WorkDir"), COLUMNS))


class Listed(NamedTuple):
    """A living job of Slurm. `batch` is False for a job of `srun` or `salloc`, which ends with that program.

    `ending`: its command has ended, or Slurm is ending it.
    """

    number: int
    batch: bool
    ending: bool


class CommandJobs:
    """The living Slurm jobs of this user whose working folder is inside of `folder`.

    `environment` is that of the command. Nothing is found if its PATH has no squeue. `own` are the numbers or
    names of the Slurm jobs in which halfstep runs the command itself.
    """

    def __init__(self, folder: str, environment: Mapping[str, str], own: Collection[str] = ()) -> None:
        self._folder = os.path.realpath(folder)
        self._environment = without_filters(environment)
        self._own = own
        self._squeue = shutil.which(SQUEUE[0], path=environment.get("PATH", ""))

    def can_list(self) -> bool:
        """Return True if squeue is installed and answers."""
        return self._squeue is not None and self._listed() is not None

    def submitted(self, *, ending: bool = False) -> Optional[Tuple[int, ...]]:
        """Return the numbers of the living jobs that were submitted with sbatch, or None if squeue fails.

        Jobs whose end has begun are included only if `ending` is True: `sbatch --wait` may return before their end.
        """
        listed = self._listed()
        if listed is None:
            return None
        return tuple(dict.fromkeys(job.number for job in listed if job.batch and (ending or not job.ending)))

    def cancel(
        self,
        pause: Callable[[], None] = lambda: time.sleep(CANCEL_EVERY_S),
        clock: Callable[[], float] = time.monotonic,
    ) -> Optional[Tuple[int, ...]]:
        """Cancel the living jobs, also those of `srun`, and wait at most CANCEL_FOR_S seconds for their end.

        `pause` is called between two attempts. Return the numbers of the jobs whose end Slurm does not confirm, or None
        if squeue fails.
        """
        deadline = clock() + CANCEL_FOR_S
        while (listed := self._listed()) and clock() < deadline:
            if running := [str(job.number) for job in listed if not job.ending]:
                read_output(("scancel", "--", *running), QUEUE_DEADLINE_S, self._environment)
            pause()
        return tuple(dict.fromkeys(job.number for job in listed)) if listed is not None else None

    def _listed(self) -> Optional[List[Listed]]:
        if self._squeue is None:
            return []
        argv = (self._squeue, *SQUEUE[1:], "--me", f"--Format={FORMAT}")
        printed = read_bytes(argv, QUEUE_DEADLINE_S, self._environment)
        return [*filter(None, map(self._parse, printed.split(b"\n")))] if printed is not None else None

    def _parse(self, line: bytes) -> Optional[Listed]:
        """Return the job in a line of squeue, or None for a job of another folder, or one that has ended."""
        values, at = [], 0
        for width in COLUMNS:
            values.append(os.fsdecode(line[at : at + width].strip()))
            at += width
        number, batch, state, name, folder = values
        inside = folder and f"{os.path.realpath(folder)}/".startswith(f"{self._folder}/")
        own = number in self._own or name in self._own
        if not inside or own or not is_living(state) or not number.isdigit():
            return None
        return Listed(int(number), batch == "1", state == "COMPLETING")
