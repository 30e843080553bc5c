"""Query Slurm's queue: its states, and the options and the environment with which squeue hides no job."""

from __future__ import annotations

from typing import Dict, Mapping

SQUEUE = ("squeue", "--all", "--noheader")
"""With --all, squeue also prints the jobs in hidden partitions."""
LIVING = (
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "COMPLETING",
    "SUSPENDED",
    "STOPPED",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "RESIZING",
    "SIGNALING",
    "SPECIAL_EXIT",
    "STAGE_OUT",
)
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT")
"""The states of a job without processes."""


def is_living(state: str) -> bool:
    """Return False only if a job in the queue state `state` has certainly ended."""
    return state == "UNKNOWN" or state.split(" ", maxsplit=1)[0] in LIVING


def without_filters(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment without the variables that filter what squeue prints and scancel cancels.

    Examples are SQUEUE_PARTITION and SCANCEL_INTERACTIVE.
    """
    return {name: value for name, value in environment.items() if not name.startswith(("SQUEUE_", "SCANCEL_"))}
