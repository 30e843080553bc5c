"""Record the gauges of a running job: the current state in gauges.json, the curves in event files."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Dict, List, Optional, Tuple

from remote.payload.files.records import read_record, write_record
from remote.payload.jobs.gpu_sampler import GpuSampler
from remote.payload.output.event_writer import EventWriter
from remote.protocol.gauges import Gauges, GpuUse
from remote.protocol.jobs import JobSpec, Progress
from remote.protocol.layout import JobLayout, RunLayout

HISTORY = 64
WRITE_EVERY_S = 2.0


class LossHistory:
    """At most HISTORY losses that cover the whole job. When the list is full, neighbours are averaged."""

    def __init__(self, losses: Tuple[float, ...] = ()) -> None:
        self.losses = losses
        self._stride = 1
        self._open: List[float] = []

    def add(self, loss: float) -> None:
        self._open.append(loss)
        if len(self._open) < self._stride:
            return
        self.losses += (sum(self._open) / len(self._open),)
        self._open = []
        if len(self.losses) >= HISTORY:
            pairs = zip(self.losses[::2], self.losses[1::2])
            self.losses = tuple((first + second) / 2 for first, second in pairs)
            self._stride *= 2


class GpuCurves:
    """Writes the mean load of each GPU per optimizer step to an event file."""

    def __init__(self, folder: str) -> None:
        self._writer = EventWriter(folder)
        self._step = 0
        self._samples: List[Tuple[GpuUse, ...]] = []

    def add(self, step: int, gpus: Tuple[GpuUse, ...]) -> None:
        """Add a sample that was taken after `step`, and write the samples of the previous step."""
        if step != self._step:
            self.flush()
        self._step = step
        self._samples.append(gpus)

    def flush(self) -> None:
        """Write the samples of the current step."""
        samples, self._samples = self._samples, []
        scalars = mean_scalars(samples)
        if scalars:
            self._writer.add(self._step, scalars, time.time())


def mean_scalars(samples: List[Tuple[GpuUse, ...]]) -> Dict[str, float]:
    """Return the mean of each value by tag, such as `gpu0/gpu_utilization` (percent, bytes, degrees Celsius)."""
    values: Dict[str, List[float]] = {}
    for gpu in (gpu for sample in samples for gpu in sample):
        row = {"utilization": gpu.utilization_percent, "memory_bytes": gpu.used_bytes, "temperature": gpu.temperature_c}
        for name, value in row.items():
            if value is not None:
                values.setdefault(f"gpu{gpu.index}/gpu_{name}", []).append(value)
    return {tag: sum(samples_of_tag) / len(samples_of_tag) for tag, samples_of_tag in values.items()}


class GaugeRecorder:
    """Records the gauges of one job. `check` takes only microseconds if nothing has changed."""

    def __init__(self, run: RunLayout, job: JobLayout, spec: JobSpec) -> None:
        self._run = run
        self._job = job
        visible = spec.environment.get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        self.sampler = GpuSampler(visible)
        self._curves = GpuCurves(run.gpu_events)
        # A supervisor that adopts the job continues the records of the previous supervisor.
        self._gauges = read_record(job.gauges, Gauges) or Gauges()
        self._gpus = self._gauges.gpus
        self._history = LossHistory(self._gauges.losses)
        self._progress: Optional[Progress] = None
        self._stamp = 0
        self._next_write = float("-inf")

    def check(self, now: float, stamp: Optional[int]) -> None:
        """Record new gauges at `now` (monotonic seconds). `stamp` changes each time the progress is written."""
        if stamp is not None and stamp != self._stamp:
            self._stamp = stamp
            self._read_progress()
        gpus = self.sampler.sample(now)
        if gpus and self._progress is not None and self._progress.step:
            with contextlib.suppress(OSError):
                self._curves.add(self._progress.step, gpus)
        self._gpus = gpus or self._gpus
        gauges = Gauges(self._gpus, self._history.losses)
        if gauges != self._gauges and now >= self._next_write:
            self._gauges, self._next_write = gauges, now + WRITE_EVERY_S
            with contextlib.suppress(OSError):
                write_record(self._job.gauges, gauges)

    def finish(self) -> None:
        """Write the remaining data, with the losses of the last steps."""
        self.sampler.close()
        self._read_progress()
        with contextlib.suppress(OSError):
            self._curves.flush()
            write_record(self._job.gauges, Gauges(self._gpus, self._history.losses))

    def _read_progress(self) -> None:
        progress = read_record(self._run.progress, Progress)
        before = self._progress.step if self._progress is not None else None
        if progress is not None and progress.step != before and progress.loss is not None:
            self._history.add(progress.loss)
        self._progress = progress or self._progress
