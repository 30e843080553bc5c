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
    """At most HISTORY losses, and their optimizer steps. When the list is full, neighbours are averaged."""

    def __init__(self, losses: Tuple[float, ...] = (), steps: Tuple[int, ...] = ()) -> None:
        self.losses = losses
        self.steps = steps if len(steps) == len(losses) else tuple(range(1, len(losses) + 1))
        self._open: List[float] = []
        self._set_step_interval()

    def add(self, step: int, loss: float) -> None:
        self._open.append(loss)
        if self.steps and step - self.steps[-1] < self._step_interval:
            return
        self.losses += (sum(self._open) / len(self._open),)
        self.steps += (step,)
        self._open = []
        if len(self.losses) >= HISTORY:
            pairs = zip(self.losses[::2], self.losses[1::2])
            self.losses = tuple((first + second) / 2 for first, second in pairs)
            self.steps = self.steps[1::2]
            self._set_step_interval()

    def forget_after(self, step: int) -> None:
        """Remove the losses after that step, because the job trains these steps again."""
        kept = sum(at <= step for at in self.steps)
        self.losses, self.steps = self.losses[:kept], self.steps[:kept]

    def _set_step_interval(self) -> None:
        # The mean number of steps between points is kept, so that a resumed job adds points at the same interval.
        gaps = len(self.steps) - 1
        self._step_interval = (self.steps[-1] - self.steps[0]) / gaps if gaps > 0 else 0.0


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
        adopted = read_record(job.gauges, Gauges)
        earlier = read_record(run.job(spec.number - 1).gauges, Gauges) if adopted is None else None
        self._gauges = adopted or Gauges()
        self._gpus = self._gauges.gpus
        known = adopted or earlier or Gauges()
        self._history = LossHistory(known.losses, known.steps)
        self._continues = earlier is not None
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
        gauges = self._recorded()
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
            write_record(self._job.gauges, self._recorded())

    def _recorded(self) -> Gauges:
        return Gauges(self._gpus, self._history.losses, self._history.steps)

    def _read_progress(self) -> None:
        progress = read_record(self._run.progress, Progress)
        before = self._progress.step if self._progress is not None else None
        if progress is not None and self._continues:
            self._history.forget_after(progress.began or 0)
            self._continues = False
        if progress is not None and progress.step != before and progress.loss is not None:
            self._history.add(progress.step, progress.loss)
        self._progress = progress or self._progress
