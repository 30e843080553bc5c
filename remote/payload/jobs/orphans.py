"""Find the living processes of a job whose supervisor has died."""

from __future__ import annotations

import os
from typing import List, Tuple

from remote.payload.files.records import read_record
from remote.payload.processes.identity import Process, descendants, is_alive, marked_processes
from remote.protocol.jobs import Started
from remote.protocol.layout import JobLayout, RunLayout


def orphans_of(run: RunLayout, job: JobLayout) -> List[Process]:
    """Return every descendant of the job's exit recorder, and every process with the job's marks in its environment.

    The exit recorder is the parent of the job's first process.
    """
    started = read_record(job.supervisor, Started)
    processes = {process.pid: process for process in marked_processes(*_marks(run, job))}
    if started is not None and is_alive(started.child_pid, started.child_start_ticks, started.boot_id):
        processes.update({process.pid: process for process in descendants(started.child_pid)})
    return list(processes.values())


def _marks(run: RunLayout, job: JobLayout) -> Tuple[str, str]:
    """Return the environment variables that mark every process of this job and no other process."""
    return f"HALFSTEP_RUN_DIR={run.root}", f"HALFSTEP_JOB={os.path.basename(job.root)}"
