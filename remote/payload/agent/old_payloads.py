"""Remove old payloads that no running process needs, except the newest one.

Modules are imported from the zip on first use, so an agent or a supervisor needs its payload until it ends. The newest
is kept because a laptop with that version may connect again.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Dict, Iterator, List, Optional, Set, Tuple

from remote.payload.files.atomic import PART
from remote.payload.jobs.state import observe_job
from remote.payload.output.job_folder import newest_job
from remote.payload.processes.identity import all_processes, is_alive, read_command, read_environment
from remote.protocol.jobs import JobState
from remote.protocol.layout import PROJECTS, RunLayout

# A payload is named <sha256>.pyz, its byte code <sha256>.<Python>.zip.
NAME = re.compile(r"([0-9a-f]{64})\.(?:pyz|[A-Za-z0-9-]+\.zip)")
UPLOAD_MAX_S = 24 * 3600.0


def remove_old_payloads(payload: str, workdir: str) -> List[str]:
    """Remove the payloads that are not needed and return their names. Does nothing if a process cannot be inspected."""
    folder = os.path.dirname(payload)
    files = payload_files(folder)
    needed = needed_payloads(workdir)
    if needed is None:
        return []
    old = {sha: names for sha, names in files.items() if f"{sha}.pyz" != os.path.basename(payload)}
    newest = max(old, key=lambda sha: _age(folder, old[sha]), default="")
    removed = [name for sha, names in old.items() if sha not in needed and sha != newest for name in names]
    for name in [*removed, *stale_uploads(folder)]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    return removed


def payload_files(folder: str) -> Dict[str, List[str]]:
    """Map the hash of each payload to the names of its files."""
    files: Dict[str, List[str]] = {}
    for name in sorted(os.listdir(folder)):
        match = NAME.fullmatch(name)
        if match:
            files.setdefault(match.group(1), []).append(name)
    return files


def stale_uploads(folder: str) -> List[str]:
    """Return the partial uploads that are older than a day."""
    before = time.time() - UPLOAD_MAX_S
    parts = (name for name in os.listdir(folder) if name.startswith(PART))
    return [name for name in parts if os.stat(os.path.join(folder, name)).st_mtime < before]


def needed_payloads(workdir: str) -> Optional[Set[str]]:
    """Return all hashes in the command lines and environments of the processes, or None if processes are not visible.

    The supervisor of a running job is not visible if it runs on another machine or in a container, or if it still waits
    in Slurm's queue.
    """
    if not os.path.isdir("/proc/self"):
        return None
    if not all(_running_jobs(workdir)):
        return None
    arguments = (word for process in all_processes() if not process.dead for word in _arguments_of(process.pid))
    return {sha.decode() for word in arguments for sha in re.findall(rb"[0-9a-f]{64}", word)}


def _arguments_of(pid: int) -> Tuple[bytes, ...]:
    return (read_command(pid), *read_environment(pid))


def _running_jobs(workdir: str) -> Iterator[bool]:
    """Yield, for each running job under the workdir, whether its supervisor is a visible process."""
    for run in _runs(workdir):
        number = newest_job(run)
        observed = observe_job(run, number)
        started = observed.answer.started
        if observed.answer.state is JobState.RUNNING:
            yield started is not None and is_alive(started.pid, started.start_ticks, started.boot_id)


def _runs(workdir: str) -> Iterator[RunLayout]:
    projects = os.path.join(workdir, PROJECTS)
    for project in _names(projects):
        folder = os.path.join(projects, project, "runs")
        yield from (RunLayout(os.path.join(folder, name)) for name in _names(folder))


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _age(folder: str, names: List[str]) -> float:
    return max(os.stat(os.path.join(folder, name)).st_mtime for name in names)
