"""stale-processes: orphaned processes of ended runs are terminated; other processes on the card are reported.

What it does
    Lists the processes that use GPU memory. If a process belongs to an ended job of this project, it gets SIGTERM, then
    SIGKILL. Other processes are reported with pid, user and size; halfstep never signals them.

Why
    A torch worker runs in a session of its own and can survive the job that started it. The worker keeps its GPU
    memory, so the next run fails with `CUDA out of memory` or, in exclusive mode, with `CUDA-capable device(s) is/are
    busy`.

Before
    TITAN RTX: 11.2 GB held by pid 4121, an orphan of run paper_r64-3f9c21aa, which failed yesterday

After
    TITAN RTX: nothing held

What it can break
    Nothing: a running job is never terminated, even if its supervisor has died.

How to undo
    A terminated process cannot be restored.
"""

from __future__ import annotations

from fixers.frame.change import HostChange, Plan
from fixers.frame.findings import error, resolved, warning
from fixers.frame.site import Site
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.jobs import JobState
from remote.protocol.machine import Gpu, GpuProcess
from remote.protocol.survey import Survey

name = "stale-processes"
safety = "safe"

SMALL_BYTES = 64 * 2**20
"""Processes below this size are not reported: desktops and monitoring tools use that much GPU memory."""


def plan(site: Site) -> Plan:
    """Plan to terminate orphans of this project's runs, and report other processes."""
    if site.survey is None or site.project is None:
        return Plan()
    findings: list[Finding] = []
    stale: dict[str, list[int]] = {}
    for gpu in site.survey.gpus:
        for process in gpu.processes:
            if is_stale(process, site.survey):
                stale.setdefault(process.ours, []).append(process.pid)
                findings.append(resolved(_orphan(gpu, process)))
            elif not process.ours and process.used_bytes > SMALL_BYTES:
                findings.append(_foreign(gpu, process))
    changes = tuple(_termination(site.project.key, run, sorted(set(pids))) for run, pids in sorted(stale.items()))
    return Plan(tuple(findings), changes)


def is_stale(process: GpuProcess, survey: Survey) -> bool:
    """Return True if the process belongs to an ended run of this project."""
    if not process.ours:
        return False
    run = survey.run(process.ours)
    return run is None or run.state is not JobState.RUNNING


def _termination(project: str, run: str, pids: list[int]) -> HostChange:
    args = {"project": project, "fixer": name, "run": run, "pids": pids}
    return HostChange(name, f"terminate {_pids(pids)}, orphaned by run {run}", "fix.processes.end", args)


def _pids(pids: list[int]) -> str:
    return ("process " if len(pids) == 1 else "processes ") + ", ".join(map(str, pids))


def _orphan(gpu: Gpu, process: GpuProcess) -> Finding:
    size = f"{process.used_bytes / 2**30:.1f} GiB"
    message = f"{gpu.name}: pid {process.pid} ({process.name}) of the ended run {process.ours} still holds {size}"
    return error(name, message, gpu.uuid, exit_code=ExitCode.GPU)


def _foreign(gpu: Gpu, process: GpuProcess) -> Finding:
    size = f"{process.used_bytes / 2**30:.1f} GiB"
    who = f" of {process.user}" if process.user else ""
    message = f"{gpu.name}: pid {process.pid} ({process.name}){who} holds {size}; it is not a process of halfstep"
    return warning(name, message, gpu.uuid, "contact the owner of the process, or choose another card in gpus:")
