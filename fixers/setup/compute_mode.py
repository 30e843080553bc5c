"""compute-mode: a card in exclusive mode takes one process; more than one is told before they meet.

What it does
    Where `nvidia-smi` says Exclusive_Process, it counts the processes that this run would put on each card and those
    that are there already, and says who they are. Prohibited means that the card computes for nobody.

Why
    The second process on an exclusive card ends with `CUDA-capable device(s) is/are busy or unavailable`, which names
    neither the mode nor the first process. Often that is a worker of the same run, or one left behind by the last.

Before
    processes: 2 on one exclusive card

After
    processes: 1, or a second card in gpus:, or Default mode set by the owner of the host

What it can break
    Nothing: it only tells. The mode is the host owner's, and changing it takes root.

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
version = 1
safety = "safe"


def plan(site: Site) -> Plan:
    """What the mode of each card means for this run."""
    if site.survey is None:
        return Plan()
    processes = int(site.config.get("processes") or 1)
    return Plan(judge_modes(site.survey.gpus, processes))


def judge_modes(gpus: tuple[Gpu, ...], processes: int) -> tuple[Finding, ...]:
    """An error where this run's processes, or others, cannot share a card as they would have to."""
    findings: list[Finding] = []
    for gpu in gpus:
        mode = gpu.compute_mode.lower().replace(" ", "_")
        others = [process for process in gpu.processes if not process.ours]
        if mode.startswith("prohibited"):
            findings.append(
                _error(gpu, f"{gpu.name} computes for nobody (Prohibited)", "nvidia-smi -c DEFAULT, as root")
            )
        elif not mode.startswith("exclusive"):
            continue
        elif others:
            names = ", ".join(f"pid {p.pid} {p.name}" for p in others)
            message = f"{gpu.name} takes one process ({gpu.compute_mode}) and has one: {names}"
            findings.append(_error(gpu, message, "choose another card in gpus:, or wait for it to end"))
        elif processes > len(gpus):
            message = f"{gpu.name} takes one process ({gpu.compute_mode}); {processes} are to share {len(gpus)} card(s)"
            findings.append(_error(gpu, message, f"processes: {len(gpus)}"))
    return tuple(findings)


def _error(gpu: Gpu, message: str, hint: str) -> Finding:
    return error(name, message, gpu.uuid, hint, exit_code=ExitCode.GPU)
