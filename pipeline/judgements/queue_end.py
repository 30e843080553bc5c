"""Judge why a job left Slurm's queue without a result. Pure."""

from __future__ import annotations

from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding

MORE_MEMORY = "pipeline run --set slurm.mem=64G"
LONGER = "pipeline run --set slurm.time=DAYS-HOURS"
ENDS = {
    "OUT_OF_MEMORY": ("slurm-out-of-memory", "used more memory than it requested (slurm.mem)", MORE_MEMORY),
    "TIMEOUT": ("slurm-timeout", "reached its time limit before it had saved a checkpoint", LONGER),
    "DEADLINE": ("slurm-timeout", "reached its deadline before it had saved a checkpoint", LONGER),
    "NODE_FAIL": ("slurm-node-failed", "was on a node that failed", ""),
    "BOOT_FAIL": ("slurm-node-failed", "was on a node that did not start", ""),
    "PREEMPTED": ("slurm-preempted", "was ended for another job before it had saved a checkpoint", ""),
    "CANCELLED": ("slurm-cancelled", "was cancelled (scancel)", ""),
    "REVOKED": ("slurm-cancelled", "was revoked by the cluster", ""),
}
"""The check, the description and the hint for each Slurm state. The check of all other states is job-lost.

The hint "" stands for the command that continues the run.
"""


def judge_queue_end(name: str, state: str, again: str = "pipeline run") -> Finding:
    """Return the finding of a run whose job left the queue in the Slurm state `state`.

    `again` is the command that continues the run.
    """
    check, what, hint = ENDS.get(state, ("job-lost", "left no result", ""))
    message = f"{name} {what}; Slurm's state: {state}"
    return Finding.error(check, message, hint=hint or again, exit_code=ExitCode.JOB_LOST)
