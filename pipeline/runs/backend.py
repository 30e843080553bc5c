"""Choose the backend that starts jobs on a host: halfstep itself, or Slurm with the options of host and config."""

from __future__ import annotations

from pipeline.config.host_model import SLURM_OPTIONS, HostConfig, SlurmConfig
from pipeline.config.model import RunConfig
from remote.protocol.dataclass import dataclass

MAX_JOBS = 10


@dataclass(frozen=True)
class Backend:
    """The backend of a job: `auto` (started by halfstep) or `slurm`, with options of sbatch.

    `max_jobs` is the maximum number of Slurm jobs per run; a job that reaches its time limit submits the next job.
    `nodes` is the number of nodes for a training job; other jobs use one node.
    """

    name: str = "auto"
    slurm: tuple[str, ...] = ()
    max_jobs: int = 1
    nodes: int = 1

    @property
    def for_training(self) -> tuple[str, ...]:
        """The options of sbatch for a training job, which may use several nodes."""
        return (*self.slurm, f"--nodes={self.nodes}", "--ntasks-per-node=1") if self.nodes > 1 else self.slurm


def srun_options(host: HostConfig, run: RunConfig) -> tuple[str, ...] | None:
    """Return the options for a compute node of Slurm, or None if commands run on the host itself."""
    backend = backend_of(host, run)
    return backend.slurm if backend.name == "slurm" else None


def backend_of(host: HostConfig, run: RunConfig) -> Backend:
    """Return the backend of a host's jobs.

    Keys of the config override keys of the host; the options in `extra` are combined.
    """
    if host.scheduler != "slurm":
        return Backend()
    first, second = host.slurm or SlurmConfig(), run.slurm or SlurmConfig()
    chosen = {key: getattr(second, key) or getattr(first, key) for key in SLURM_OPTIONS}
    named = (f"{SLURM_OPTIONS[key]}={value}" for key, value in chosen.items() if value is not None)
    options = (*named, *first.extra, *second.extra)
    return Backend("slurm", options, second.max_jobs or first.max_jobs or MAX_JOBS, second.nodes or first.nodes or 1)
