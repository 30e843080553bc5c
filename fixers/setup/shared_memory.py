"""shared-memory: a container's /dev/shm that is too small for data workers and NCCL is reported.

What it does
    In a container, compares the size of /dev/shm with the size that the workers of this run need. The finding names the
    option of `docker run` that sets the size.

Why
    Docker's default is 64 MiB. Data workers pass batches through /dev/shm, and NCCL uses it for buffers. If it is too
    small, data workers fail with `DataLoader worker is killed by signal: Bus error`, and NCCL fails with `unhandled
    system error`.

Before
    docker run --gpus all IMAGE            64 MiB

After
    docker run --gpus all --shm-size 8g IMAGE

What it can break
    Nothing: this fixer only reports. The size is set when the container is created.

How to undo
    Nothing to undo.
"""

from __future__ import annotations

from fixers.frame.change import Plan
from fixers.frame.findings import error, warning
from fixers.frame.site import Site
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.machine import Machine

name = "shared-memory"
safety = "safe"

FOR_WORKERS = 256 * 2**20
FOR_NCCL = 2**30
"""NCCL needs tens of MiB per process, channel and peer: 1 GiB is enough for eight processes."""


def plan(site: Site) -> Plan:
    """Report a /dev/shm that is too small for this run."""
    if site.survey is None:
        return Plan()
    return Plan(judge_shared_memory(site.survey.machine, int(site.config.get("processes") or 1)))


def judge_shared_memory(machine: Machine, processes: int) -> tuple[Finding, ...]:
    """Return an error if /dev/shm is too small for several processes, or a warning if only data workers need more."""
    needed = FOR_NCCL if processes > 1 else FOR_WORKERS
    if not machine.container or machine.shm_bytes >= needed:
        return ()
    size, wanted = machine.shm_bytes // 2**20, needed // 2**20
    message = f"/dev/shm has {size} MiB; {processes} process(es) and their data workers need {wanted} MiB"
    hint = "docker run --shm-size 8g, or --ipc=host"
    if processes > 1:
        return (error(name, message, "/dev/shm", hint, exit_code=ExitCode.ENVIRONMENT),)
    return (warning(name, message, "/dev/shm", hint),)
