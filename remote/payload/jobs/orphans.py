"""Find the living processes of a job, also those of a job whose supervisor has died."""

from __future__ import annotations

import os
from typing import List, Tuple

from remote.payload.files.records import read_record
from remote.payload.processes.identity import Descendants, Process, descendants, is_alive
from remote.payload.processes.marked import Marked, marked_processes, united
from remote.protocol.jobs import Started
from remote.protocol.layout import JobLayout, RunLayout


def orphans_of(run: RunLayout, job: JobLayout) -> List[Process]:
    """Return every descendant of the job's exit recorder, and every process with the job's marks in its environment.

    The exit recorder is the parent of the job's first process.
    """
    started = read_record(job.supervisor, Started)
    marked = marked_processes(*_marks(run, job))
    if started is not None and is_alive(started.child_pid, started.child_start_ticks, started.boot_id):
        return united(marked, descendants(started.child_pid))
    return marked


class Members:
    """The living processes of a job that this process supervises, for repeated calls.

    They are the descendants of this process, and the processes that a service has started for the job on this machine,
    such as the steps of `sbatch --wait`. The steps of a job of our own under Slurm are ended by Slurm: `below` omits
    them.
    """

    def __init__(self, run: RunLayout, job: JobLayout) -> None:
        self._below = Descendants(os.getpid())
        self._marked = Marked(*_marks(run, job))

    def below(self) -> List[Process]:
        """Return the descendants of this process."""
        return self._below.read()

    def all(self) -> List[Process]:
        """Return every process of the job."""
        return united(self._below.read(), self._marked.read())


def _marks(run: RunLayout, job: JobLayout) -> Tuple[str, str]:
    """Return the environment variables that mark every process of this job and no other process."""
    return f"HALFSTEP_RUN_DIR={run.root}", f"HALFSTEP_JOB={os.path.basename(job.root)}"
