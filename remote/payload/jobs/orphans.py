"""Find the living processes of a job, also those of a job whose supervisor has died."""

from __future__ import annotations

import contextlib
import os
from typing import Dict, List, Tuple

from remote.payload.files.records import read_record
from remote.payload.processes.identity import (
    Descendants,
    Process,
    all_processes,
    boot_id,
    descendants,
    is_alive,
    pid_namespace,
    read_process,
)
from remote.payload.processes.marked import Marked, marked_processes, united
from remote.protocol.jobs import Started
from remote.protocol.layout import JobLayout, RunLayout


def orphans_of(run: RunLayout, job: JobLayout) -> List[Process]:
    """Return every descendant of the job's exit recorder, and every process of its session or with the job's marks.

    The exit recorder is the parent of the job's first process. The marks are in the environment, which a process can
    replace.
    """
    started = read_record(job.supervisor, Started)
    marked = marked_processes(*_marks(run, job))
    if started is None or started.boot_id != boot_id():
        return marked
    session = _session_of(started)
    if is_alive(started.child_pid, started.child_start_ticks, started.boot_id):
        return united(united(marked, session), descendants(started.child_pid))
    # After the end of the whole session, its number may be that of another one.
    known = {process.pid for process in marked}
    proven = any(process.pid in known or _writes_to(process, job.output) for process in session)
    return united(marked, session) if proven else marked


def _session_of(started: Started) -> List[Process]:
    """Return the other processes in the session of the exit recorder."""
    if started.child_pid <= 0 or started.namespace not in ("", pid_namespace()):
        return []
    recorder = started.child_pid
    younger = (one for one in all_processes() if one.ticks >= started.child_start_ticks and one.pid != recorder)
    return [one for one in younger if not one.dead and _session(one.pid) == recorder]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _writes_to(process: Process, output: str) -> bool:
    """Return True if the standard output or standard error of the process is the file `output`."""
    for standard in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/{process.pid}/fd/{standard}", output):
                return True
    return False


class Adopted:
    """The living processes of a job that this process has adopted, for repeated calls.

    A process that was one of them once remains one, also after its parent has ended.
    """

    def __init__(self, run: RunLayout, job: JobLayout) -> None:
        self._run = run
        self._job = job
        self._known: Dict[int, int] = {}

    def read(self) -> List[Process]:
        """Return every process of the job."""
        before = [one for one in map(read_process, self._known) if one is not None and not one.dead]
        before = [one for one in before if one.ticks == self._known[one.pid]]
        found = orphans_of(self._run, self._job)
        for one in before:
            found = united(found, [one, *descendants(one.pid)])
        self._known = {one.pid: one.ticks for one in found}
        return found


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
