"""compute-mode: a run that needs several processes on a card in exclusive mode is reported before it starts.

What it does
    If `nvidia-smi` reports Exclusive_Process, counts the processes that this run would start on each card, and the
    processes that already run on the card, and reports both. A card in mode Prohibited runs no compute process.

Why
    The second process on an exclusive card fails with `CUDA-capable device(s) is/are busy or unavailable`. The message
    names neither the mode nor the first process. The first process is often a worker of the same run, or an orphan of
    the previous run.

Before
    processes: 2 on one exclusive card

After
    processes: 1, a second card in gpus:, or Default mode set by the host's administrator

What it can break
    Nothing: this fixer only reports. Changing the mode needs root.

How to undo
    Nothing to undo.
"""

from __future__ import annotations

from fixers.frame.change import Plan
from fixers.frame.findings import error
from fixers.frame.site import Site
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.machine import Gpu

name = "compute-mode"
safety = "safe"


def plan(site: Site) -> Plan:
    """Report cards whose compute mode does not allow this run."""
    if site.survey is None:
        return Plan()
    processes = int(site.config.get("processes") or 1)
    return Plan(judge_modes(site.survey.gpus, processes))


def judge_modes(gpus: tuple[Gpu, ...], processes: int) -> tuple[Finding, ...]:
    """Return an error for each card whose compute mode does not allow this run's processes."""
    findings: list[Finding] = []
    for gpu in gpus:
        mode = gpu.compute_mode.lower().replace(" ", "_")
        others = [process for process in gpu.processes if not process.ours]
        if mode.startswith("prohibited"):
            findings.append(
                _error(gpu, f"{gpu.name} runs no compute process (Prohibited)", "nvidia-smi -c DEFAULT, as root")
            )
        elif not mode.startswith("exclusive"):
            continue
        elif others:
            names = ", ".join(f"pid {p.pid} {p.name}" for p in others)
            message = f"{gpu.name} allows one process ({gpu.compute_mode}) and already runs {names}"
            findings.append(_error(gpu, message, "choose another card in gpus:, or wait until that process has ended"))
        elif processes > len(gpus):
            message = f"{gpu.name} allows one process ({gpu.compute_mode}); {processes} would share {len(gpus)} card(s)"
            findings.append(_error(gpu, message, f"processes: {len(gpus)}"))
    return tuple(findings)


def _error(gpu: Gpu, message: str, hint: str) -> Finding:
    return error(name, message, gpu.uuid, hint, exit_code=ExitCode.GPU)
