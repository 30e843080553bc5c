"""The gauges of a running job: the load of its GPUs and a short history of the run's loss."""

from __future__ import annotations

from typing import Optional, Tuple

from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class GpuUse:
    """The load of one GPU, from nvidia-smi. A value is None if the driver does not report it."""

    index: int
    utilization_percent: Optional[float] = None
    used_bytes: Optional[int] = None
    total_bytes: Optional[int] = None
    temperature_c: Optional[float] = None


@dataclass(frozen=True)
class Gauges:
    """The newest sample of each GPU of the job, and a few losses that cover all jobs of the run, oldest first.

    `steps` are the optimizer steps of the losses, or () if a supervisor of an older version recorded them.
    """

    gpus: Tuple[GpuUse, ...] = ()
    losses: Tuple[float, ...] = ()
    steps: Tuple[int, ...] = ()
