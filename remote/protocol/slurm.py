"""Requests to a host with Slurm: sbatch options, and jobs that are submitted as one array."""

from __future__ import annotations

from typing import Dict, Tuple

from remote.protocol.dataclass import dataclass, field

SBATCH_OPTION = r"--?[A-Za-z][A-Za-z0-9-]*(=[^\n\r]*)?"
"""Matches an sbatch option. An option becomes a line of a batch script, so it must not contain a line break."""


@dataclass(frozen=True)
class HeldJob:
    """A job that was prepared with `hold`, and its secrets."""

    run: str
    number: int
    secrets: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ArrayRequest:
    """Submit held jobs of a project to Slurm. Jobs with the same options become one array."""

    project: str
    jobs: Tuple[HeldJob, ...]
