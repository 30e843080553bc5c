"""stale-processes: what our own ended runs left on the card is ended; other people's processes are named.

What it does
    Looks at who holds memory on the cards. A process that bears the mark of an earlier run of this project, whose job
    has ended, is asked to end, then made to. Everybody else is named with pid, user and size, and never touched.

Why
    A worker of torch has a session of its own and can outlive the job that started it. It keeps its memory, and the
    next run ends with `CUDA out of memory` or, in exclusive mode, with `CUDA-capable device(s) is/are busy`.

Before
    TITAN RTX: 11.2 GB held by pid 4121, left behind by run paper_r64-3f9c21aa, which failed yesterday

After
    TITAN RTX: nothing held

What it can break
    Nothing that is still at work: a job that runs, with or without its supervisor, is never ended by this.

How to undo
    A process cannot be brought back.
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
version = 1
safety = "safe"

SMALL_BYTES = 64 * 2**20
"""What a desktop or a monitor takes; not worth a word."""


def plan(site: Site) -> Plan:
    """Our leftovers ended, others named."""
    if site.survey is None or site.project is None:
        return Plan()
    findings: list[Finding] = []
    stale: dict[str, list[int]] = {}
    for gpu in site.survey.gpus:
        for process in gpu.processes:
            if is_stale(process, site.survey):
                stale.setdefault(process.ours, []).append(process.pid)
                findings.append(resolved(_left_behind(gpu, process)))
            elif not process.ours and process.used_bytes > SMALL_BYTES:
                findings.append(_of_others(gpu, process))
    changes = tuple(_end(site.project.key, run, sorted(set(pids))) for run, pids in sorted(stale.items()))
    return Plan(tuple(findings), changes)


def is_stale(process: GpuProcess, survey: Survey) -> bool:
    """It belongs to a run of this project that is over."""
    if not process.ours:
        return False
    run = survey.run(process.ours)
    return run is None or run.state is not JobState.RUNNING


def _end(project: str, run: str, pids: list[int]) -> HostChange:
    args = {"project": project, "fixer": name, "run": run, "pids": pids}
    return HostChange(name, f"end {_pids(pids)}, left behind by run {run}", "fix.processes.end", args)


def _pids(pids: list[int]) -> str:
    return ("process " if len(pids) == 1 else "processes ") + ", ".join(map(str, pids))


def _left_behind(gpu: Gpu, process: GpuProcess) -> Finding:
    size = f"{process.used_bytes / 2**30:.1f} GiB"
    message = f"{gpu.name}: pid {process.pid} ({process.name}) of the ended run {process.ours} still holds {size}"
    return error(name, message, gpu.uuid, exit_code=ExitCode.GPU)


def _of_others(gpu: Gpu, process: GpuProcess) -> Finding:
    size = f"{process.used_bytes / 2**30:.1f} GiB"
    who = f" of {process.user}" if process.user else ""
    message = f"{gpu.name}: pid {process.pid} ({process.name}){who} holds {size}; it is not ours and stays"
    return warning(name, message, gpu.uuid, "ask its owner, or choose another card in gpus:")
