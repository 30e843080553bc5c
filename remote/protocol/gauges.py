"""The gauges of a running job: the load of its GPUs and a short history of its loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple


@dataclass(frozen=True)
class GpuUse:
    """One GPU as nvidia-smi reports it; None where the driver does not report a value."""

    index: int
    utilization_percent: Optional[float] = None
    used_bytes: Optional[int] = None
    total_bytes: Optional[int] = None
    temperature_c: Optional[float] = None


@dataclass(frozen=True)
class Gauges:
    """The newest sample of each GPU of the job, and a few losses that span the whole job, oldest first."""

    gpus: Tuple[GpuUse, ...] = ()
    losses: Tuple[float, ...] = ()
