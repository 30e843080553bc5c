"""The live watch's recorder, which measures each optimizer step cheaply and writes progress and anomalies."""

from __future__ import annotations

import atexit
import dataclasses
import json
import math
import os
import sys
import time
from typing import Any, Dict, List, Optional, Set, Tuple

from .device import held_bytes
from .interruptions import Interruptions
from .loss_graph import Start
from .monitor import Anomaly, StepMonitor
from .progress import ProgressRecord
from .quiet import Ledger, quiet
from .recorder import DetailRecorder, number_in_environment
from .report import write_json
from .resumed import OpenedFiles, TrainingStart, describe_start, find_start
from .rules import adapter_is_idle, is_adapter
from .step import Step
from .tensors import (
    fingerprint,
    learning_rate,
    living_names,
    local,
    measure_gradients,
    nonfinite,
    parameters_of,
    read_losses,
    trained_by,
)

PROGRESS_EVERY_S = 0.5
COVERAGE_STEPS = 3
LAST_COVERAGE_STEP = 20
FEW_STEPS = 10
"""Within these steps every optimizer of the training steps. One that first steps later replaces another one."""
UNCONDITIONAL = frozenset(
    {"SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "ASGD"}
)
"""Optimizers of torch.optim that write NaN to a weight whose gradient is not finite. Rprop uses only its sign."""


class TrainingStopped(RuntimeError):
    """Ends a training run that cannot recover. The error catalog has an entry for the message."""


class WatchRecorder:
    """Writes progress.json (rank 0) and watch.jsonl (every rank) to the run's folder.

    Ends a training run that cannot recover. Losses stay on the device until the step, because the loss scaler then
    waits for the device in any case.
    """

    details: Optional[DetailRecorder] = None

    def __init__(self, run: str) -> None:
        self.run = run
        self.rank = number_in_environment("RANK", 0)
        self.stops = os.environ.get("HALFSTEP_WATCH_STOP", "1") != "0"
        self.writes_progress = os.environ.get("HALFSTEP_WATCH_PROGRESS", "1") != "0" and self.rank == 0
        self.progress = ProgressRecord(os.path.join(run, "losses.txt") if self.writes_progress else "")
        self.ledger = Ledger()
        self.main: Optional[Any] = None
        self.scaler: Optional[Any] = None
        self.losses: List[Any] = []
        self.foreign = 0
        self.other_stepped = False
        self.clip_norm: Optional[Any] = None
        self.norm: Optional[float] = None
        self.stepping = False
        self.untouched: Set[int] = set()
        self.skipped = 0
        self.attempts = 0
        self.offered = os.environ.get("HALFSTEP_RESUME_FROM", "")
        self.reads = OpenedFiles(run)
        self.start = TrainingStart()
        self.monitor = StepMonitor()
        self.interruptions = Interruptions()
        self.since = time.monotonic()
        self.last_written = 0.0
        self.pending: Optional[Dict[str, Any]] = None
        self.stop: Optional[Anomaly] = None
        atexit.register(self.flush)

    def restart(self) -> None:
        WatchRecorder.__init__(self, self.run)

    @quiet
    def backward(self, loss: Any) -> None:
        if self.other_stepped:
            # The losses so far belong to that step: in a GAN, each optimizer has its own.
            self.foreign, self.other_stepped = len(self.losses), False
        self.losses.append(loss.detach())

    @quiet
    def after_backward(self, start: Start) -> None:
        # In a closure, gradients may already be cleared when the step is over, so they are measured here.
        if self.stepping:
            self._measure(self.main)

    @quiet
    def after_clipping(self, parameters: List[Any], norm: Any, limit: Any) -> None:
        ids = {id(parameter) for parameter in parameters}
        # Clipping of another model, such as a critic, does not concern this optimizer.
        if self.main is None or any(id(p) in ids for p in parameters_of(self.main)):
            self.clip_norm = norm.detach() if hasattr(norm, "detach") else norm

    @quiet
    def attempt(self, optimizer: Any, scaler: Any) -> None:
        if self.main is None or _size(optimizer) > _size(self.main):
            self.main = optimizer
            if self.attempts < FEW_STEPS:
                self.progress.restart()
            if not self.attempts:
                self.start = find_start(optimizer, self.reads)
                self.progress.find_planned()
                left = self.progress.planned and self.progress.planned - (self.start.step or 0)
                self.monitor = StepMonitor(trained_before=self.start.resumed, planned=left)
        self.scaler = scaler
        if optimizer is self.main:
            for anomaly in self.interruptions.before_step(parameters_of(optimizer), self.attempts + 1, self.untouched):
                self._report(anomaly)

    def before_step(self, optimizer: Any, *, closure: bool) -> None:
        self._before_step(optimizer, closure)
        self._stop_if_lost()

    @quiet
    def _before_step(self, optimizer: Any, closure: bool) -> None:
        self.stepping = optimizer is self.main
        if not self.stepping or not self.losses:
            return
        self._measure(optimizer)
        if self.stops and self.scaler is None and not closure and self._would_ruin(optimizer):
            # The step is not applied, so `after_step` will not be called.
            self._record(optimizer, None, applied=False, prevented=True)

    def _would_ruin(self, optimizer: Any) -> bool:
        """Return True if the step is certain to ruin weights, because it applies gradients that are not finite."""
        norm = self._grad_norm()
        if norm is None or math.isfinite(norm) or not _is_unconditional(optimizer):
            return False
        # The norm that clipping computes may overflow although no gradient does.
        return "nonfinite" in measure_gradients(_parameters_by_index(optimizer))[0].values()

    def _measure(self, optimizer: Any) -> None:
        """Measure the gradients' norm, unless clipping has measured it.

        In the first steps and after interruptions, also record which tensors got a gradient.
        """
        applied = self.monitor.applied
        covering = applied < LAST_COVERAGE_STEP and (self.untouched or not applied)
        interrupted = self.interruptions.watching
        if not covering and not interrupted and self.clip_norm is not None:
            return
        named = _parameters_by_index(optimizer)
        states, self.norm = measure_gradients(named)
        reached = {id(p) for name, p in named if states[name] in ("nonzero", "nonfinite")}
        if interrupted:
            self.interruptions.note_gradients(reached)
        if not covering:
            return
        if not applied:
            self.untouched = {id(p) for _, p in named if p.numel()}
        self.untouched -= reached

    def _grad_norm(self) -> Optional[float]:
        norm = self.clip_norm
        return self.norm if norm is None else float(local(norm) if hasattr(norm, "detach") else norm)

    def after_step(self, optimizer: Any, scaler: Any, scale: Optional[float], skipped: bool) -> None:
        self._after_step(optimizer, scale, skipped)
        self._stop_if_lost()

    def _stop_if_lost(self) -> None:
        if self.stop is not None and self.stops:
            raise TrainingStopped(f"halfstep stopped this training: {self.stop.check}: {self.stop.message}")

    @quiet
    def _after_step(self, optimizer: Any, scale: Optional[float], skipped: bool) -> None:
        if optimizer is not self.main:
            self.other_stepped = True
            return
        if self.norm is None and self.clip_norm is None and not skipped and _has_gradients(optimizer):
            self._measure(optimizer)
            if not self.norm:
                # The step itself may have cleared its gradients.
                self.norm, self.untouched = None, set()
        self._record(optimizer, scale, applied=not skipped)

    def _record(self, optimizer: Any, scale: Optional[float], *, applied: bool, prevented: bool = False) -> None:
        """Judge the step, and report its progress and anomalies."""
        now = time.monotonic()
        self.attempts += 1
        self.skipped += not applied
        if self.attempts == 1:
            self._report_start()
        step = self._step(optimizer, scale, applied, prevented, now)
        anomalies = self.monitor.observe(step)
        if self.monitor.applied in (COVERAGE_STEPS, LAST_COVERAGE_STEP) and step.is_counted:
            anomalies += self._uncovered()
        if applied:
            self.interruptions.after_step(parameters_of(optimizer), step.learning_rate)
        for anomaly in anomalies:
            self._report(anomaly)
        self.pending = self.progress.row(step, began=self.start.step, skipped=self.skipped, foreign=self.foreign)
        self.foreign, self.other_stepped = 0, False
        self.stepping, self.losses, self.clip_norm, self.norm, self.since = False, [], None, None, now
        if now - self.last_written >= PROGRESS_EVERY_S or anomalies or self.attempts == 1:
            self.flush()

    def _step(self, optimizer: Any, scale: Optional[float], applied: bool, prevented: bool, now: float) -> Step:
        norm = self._grad_norm()
        step = Step(
            number=self.attempts,
            applied=applied,
            losses=read_losses(self.losses),
            grad_norm=norm,
            applied_norm=norm if applied else None,
            loss_scale=scale,
            learning_rate=learning_rate(optimizer),
            nonfinite_weights=prevented,
            prevented=prevented,
            seconds=now - self.since,
            held_bytes=held_bytes(),
        )
        # NaN weights are visible in the loss or the norm. If a script replaces NaN, they give a loss of 0.0.
        suspicious = not step.loss_is_finite or step.loss_is_zero or (norm is not None and not math.isfinite(norm))
        if applied and suspicious and nonfinite(fingerprint(_parameters_by_index(optimizer))):
            return dataclasses.replace(step, nonfinite_weights=True)
        return step

    def _uncovered(self) -> List[Anomaly]:
        """Return an anomaly if trained tensors got no gradient in any step so far."""
        if not self.untouched:
            return []
        names = living_names({id(p): p for _, p in trained_by(self.main)})
        idle = sorted(names[key] for key in self.untouched)
        lost = self.monitor.applied == LAST_COVERAGE_STEP and adapter_is_idle(names, self.untouched)
        shown = [name for name in idle if is_adapter(name)] or idle
        more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
        listed = f"{', '.join(shown[:3])}{more}"
        tensors = "tensor" if len(shown) == 1 else "tensors"
        message = f"{len(shown)} trained {tensors} got no gradient in {self.monitor.applied} applied steps: {listed}"
        return [Anomaly("adapter-gradient", "error" if lost else "warning", message, self.attempts)]

    def _report_start(self) -> None:
        """Report whether the training resumes from a checkpoint. The first optimizer step shows this."""
        self.reads.stop()
        if self.rank == 0 and (self.start.resumed or self.offered):
            self._report(Anomaly("resume", *describe_start(self.start, self.offered, self.reads)))

    def _report(self, anomaly: Anomaly) -> None:
        """Append a line to watch.jsonl. The first error becomes the reason to stop the training."""
        line = json.dumps({**dataclasses.asdict(anomaly), "rank": self.rank, "at_unix": time.time()}) + "\n"
        descriptor = os.open(os.path.join(self.run, "watch.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
        if anomaly.severity == "error" and self.stop is None:
            self.stop = anomaly

    def flush(self) -> None:
        """Write the newest step to progress.json."""
        if not self.writes_progress or self.pending is None or os.getpid() != self.ledger.pid:
            return
        write_json(os.path.join(self.run, "progress.json"), self.pending)
        self.progress.file.write()
        self.pending, self.last_written = None, time.monotonic()


def _is_unconditional(optimizer: Any) -> bool:
    """Return True if the step uses the gradients unchanged, so that no later hook can repair them."""
    kind = type(optimizer)
    hooks = getattr(optimizer, "_optimizer_step_pre_hooks", ())
    everywhere = getattr(sys.modules["torch.optim.optimizer"], "_global_optimizer_pre_hooks", ())
    only_hook = not hooks and len(everywhere) <= 1
    return only_hook and kind.__module__.startswith("torch.optim.") and kind.__name__ in UNCONDITIONAL


def _parameters_by_index(optimizer: Any) -> List[Tuple[str, Any]]:
    return [(str(at), p) for at, p in trained_by(optimizer)]


def _has_gradients(optimizer: Any) -> bool:
    return any(p.grad is not None for p in parameters_of(optimizer))


def _size(optimizer: Any) -> int:
    return sum(p.numel() for p in parameters_of(optimizer))
