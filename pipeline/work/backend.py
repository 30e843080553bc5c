"""How a host starts jobs: by its own supervisor, or through Slurm with the options of host and config."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.config.model import HostConfig, RunConfig, SlurmConfig

OPTIONS = {
    "partition": "--partition",
    "account": "--account",
    "gres": "--gres",
    "gpus": "--gpus",
    "cpus": "--cpus-per-task",
    "mem": "--mem",
    "time": "--time",
    "constraint": "--constraint",
    "qos": "--qos",
}
"""Key of `slurm:` to option of sbatch."""


@dataclass(frozen=True)
class Backend:
    """What starts a job: `auto` or `slurm`, with options of sbatch."""

    name: str = "auto"
    slurm: tuple[str, ...] = ()


def backend_of(host: HostConfig, run: RunConfig) -> Backend:
    """Return the backend of a host's jobs. Keys of the config override those of the host; `extra` of both apply."""
    if host.scheduler != "slurm":
        return Backend()
    first, second = host.slurm or SlurmConfig(), run.slurm or SlurmConfig()
    chosen = {key: getattr(second, key) or getattr(first, key) for key in OPTIONS}
    named = (f"{OPTIONS[key]}={value}" for key, value in chosen.items() if value is not None)
    return Backend("slurm", (*named, *first.extra, *second.extra))
