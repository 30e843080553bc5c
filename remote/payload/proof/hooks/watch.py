"""The watch's recorder: one cheap look at each optimizer step, progress for the laptop, anomalies as they happen."""

from __future__ import annotations

import atexit
import json
import math
import os
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .anomalies import Anomaly, Step, Vigil
from .device import held_bytes, peak_bytes
from .quiet import Ledger, quiet
from .resumed import Reads, Start, judge_start, was_read
from .tensors import (
    learning_rate,
    living_names,
    local,
    mark,
    measure_gradients,
    nonfinite,
    parameters_of,
    trained_by,
)

PROGRESS_EVERY_S = 0.5
COVERAGE_STEPS = 3
LAST_COVERAGE_STEP = 20


class TrainingStopped(RuntimeError):
    """What the watch ends a training with: its message is an entry of the error catalog."""


class WatchRecorder:
    """Writes progress.json (rank 0) and watch.jsonl (every rank) into the run's folder; ends a training that is lost.

    Losses stay on the device until the step, where the loss scaler waits for the device anyway.
    """

    wants_modules = False

    def __init__(self, run: str) -> None:
        self.run = run
        self.rank = int(os.environ.get("RANK", "0"))
        self.stops = os.environ.get("HALFSTEP_WATCH_STOP", "1") != "0"
        self.progresses = os.environ.get("HALFSTEP_WATCH_PROGRESS", "1") != "0" and self.rank == 0
        self.steps = int(os.environ.get("HALFSTEP_STEPS") or 0) or None
        self.ledger = Ledger()
        self.release: Callable[[], None] = lambda: None
        self.main: Optional[Any] = None
        self.micro: List[Any] = []
        self.clip_norm: Optional[Any] = None
        self.norm: Optional[float] = None
        self.stepping = False
        self.untouched: Dict[int, Any] = {}
        self.skipped = 0
        self.attempts = 0
        self.offered = os.environ.get("HALFSTEP_RESUME_FROM", "")
        self.reads = Reads(run)
        self.start = Start()
        self.vigil = Vigil()
        self.since = time.monotonic()
        self.last_written = 0.0
        self.pending: Optional[Dict[str, Any]] = None
        self.stop: Optional[Anomaly] = None
        atexit.register(self._flush)

    def restart(self) -> None:
        WatchRecorder.__init__(self, self.run)

    def built(self, optimizer: Any) -> None:
        pass

    def forward(self, root: Any) -> None:
        pass

    def inputs(self, root: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        pass

    def attention(self, query: Any, key: Any, value: Any, settings: Dict[str, Any]) -> None:
        pass

    def cross_entropy(self, scores: Any, target: Any, ignored: int) -> None:
        pass

    def loss(self, name: str, target: Any, lengths: Any) -> None:
        pass

    def checkpointed(self, reentrant: bool, args: Tuple[Any, ...]) -> None:
        pass

    def scaled(self, scaler: Any, loss: Any) -> None:
        pass

    def asked(self, what: str, wanted: bool, on: bool) -> None:
        pass

    def accumulating(self) -> None:
        pass

    @quiet
    def accumulated(self, kind: str) -> None:
        # A closure: its gradients may be cleared again when the step is over.
        if self.stepping:
            self._measure(self.main)

    def unscaling(self, scaler: Any, optimizer: Any) -> None:
        pass

    def clipping(self, parameters: List[Any]) -> None:
        pass

    def scheduled(self, scheduler: Any) -> None:
        pass

    def rescaled(self, scaler: Any) -> None:
        pass

    @quiet
    def backward(self, root: Any, loss: Any) -> None:
        self.micro.append(loss.detach())

    @quiet
    def clipped(self, parameters: List[Any], norm: Any, limit: Any) -> None:
        ids = {id(parameter) for parameter in parameters}
        # A critic that is clipped beside says nothing of what this optimizer trains.
        if self.main is None or any(id(p) in ids for p in parameters_of(self.main)):
            self.clip_norm = norm.detach() if hasattr(norm, "detach") else norm

    @quiet
    def attempt(self, optimizer: Any, scaler: Any) -> None:
        if self.main is None or _size(optimizer) > _size(self.main):
            self.main = optimizer
            if not self.attempts:
                self.start = judge_start(optimizer, self.reads)
                self.vigil = Vigil(trained_before=self.start.resumed)

    @quiet
    def applying(self, optimizer: Any) -> None:
        self.stepping = optimizer is self.main
        if self.stepping and self.micro:
            self._measure(optimizer)

    def _measure(self, optimizer: Any) -> None:
        if self.vigil.applied < LAST_COVERAGE_STEP and (self.untouched or not self.vigil.applied):
            self._cover(optimizer)
        elif self.clip_norm is None:
            _, self.norm = measure_gradients(_numbered(optimizer))

    def _cover(self, optimizer: Any) -> None:
        """In the first steps every tensor must get a gradient once: one that is never touched will never be trained."""
        named = _numbered(optimizer)
        states, self.norm = measure_gradients(named)
        if self.vigil.applied == 0:
            self.untouched = {id(p): p for _, p in named if p.numel()}
        for name, parameter in named:
            if states[name] in ("nonzero", "nonfinite"):
                self.untouched.pop(id(parameter), None)

    def applied(self, optimizer: Any, scaler: Any, scale: Optional[float], skipped: bool) -> None:
        self._applied(optimizer, scale, skipped)
        if self.stop is not None and self.stops:
            raise TrainingStopped(f"halfstep stopped this training: {self.stop.check}: {self.stop.message}")

    @quiet
    def _applied(self, optimizer: Any, scale: Optional[float], skipped: bool) -> None:
        if optimizer is not self.main:
            return
        self.stepping = False
        now = time.monotonic()
        if self.norm is None and self.clip_norm is None and not skipped and _has_gradients(optimizer):
            self._measure(optimizer)
            if not self.norm:
                # The step itself may have cleared what it used.
                self.norm, self.untouched = None, {}
        losses = [float(local(loss).float()) for loss in self.micro]
        norm = (
            self.norm
            if self.clip_norm is None
            else float(local(self.clip_norm) if hasattr(self.clip_norm, "detach") else self.clip_norm)
        )
        self.attempts += 1
        self.skipped += skipped
        if self.attempts == 1:
            self._tell_start()
        rate = learning_rate(optimizer)
        norm_used = None if skipped else norm
        spoiled = not skipped and _is_strange(losses, norm) and bool(nonfinite(mark(_numbered(optimizer))))
        step = Step(self.attempts, losses, norm_used, scale, skipped, rate, held_bytes(), spoiled)
        anomalies = self.vigil.look(step)
        if self.vigil.applied in (COVERAGE_STEPS, LAST_COVERAGE_STEP) and not skipped and rate != 0:
            anomalies += self._uncovered()
        for anomaly in anomalies:
            self._tell(anomaly)
        self.pending = {
            "step": (self.start.step or 0) + self.attempts,
            "steps": self.steps,
            "began": self.start.step,
            "loss": _sum(losses),
            "grad_norm": _finite(norm),
            "loss_scale": scale,
            "skipped_steps": self.skipped,
            "step_seconds": now - self.since,
            "peak_bytes": peak_bytes(),
            "at_unix": time.time(),
        }
        self.micro, self.clip_norm, self.norm, self.since = [], None, None, now
        if now - self.last_written >= PROGRESS_EVERY_S or anomalies or self.attempts == 1:
            self._flush()

    def _uncovered(self) -> List[Anomaly]:
        if not self.untouched:
            return []
        names = living_names({id(p): p for _, p in trained_by(self.main)})
        adapters = {key for key, name in names.items() if "lora" in name.lower() or "adapter" in name.lower()}
        idle = sorted(names[key] for key in (adapters & self.untouched.keys() or self.untouched))
        # Parts of a model may rest for long (experts, a modality the first batches lack); all of an adapter may not.
        lost = self.vigil.applied == LAST_COVERAGE_STEP and (adapters or names.keys()) <= self.untouched.keys()
        words = f"{len(idle)} trained tensors got no gradient in {self.vigil.applied} steps: {', '.join(idle[:3])}"
        return [Anomaly("adapter-gradient", "error" if lost else "warning", words, self.attempts)]

    def _tell_start(self) -> None:
        """Whether the training goes on from a checkpoint, once its first step has shown it."""
        self.reads.stop()
        if self.rank == 0 and (self.start.resumed or self.offered):
            self._tell(start_note(self.start, self.offered, was_read(self.offered, self.reads)))

    def _tell(self, anomaly: Anomaly) -> None:
        """One line of watch.jsonl; an error ends the training where the run may be ended."""
        line = json.dumps({**anomaly.__dict__, "rank": self.rank, "at_unix": time.time()}) + "\n"
        descriptor = os.open(os.path.join(self.run, "watch.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
        if anomaly.severity == "error" and self.stop is None:
            self.stop = anomaly

    def _flush(self) -> None:
        """progress.json holds the newest step, whole."""
        if not self.progresses or self.pending is None or os.getpid() != self.ledger.pid:
            return
        path = os.path.join(self.run, "progress.json")
        part = f"{path}.{self.ledger.pid}.part"
        with open(part, "w", encoding="utf-8") as file:
            json.dump(self.pending, file)
        os.replace(part, path)
        self.pending, self.last_written = None, time.monotonic()


def start_note(start: Start, offered: str, read: bool) -> Anomaly:
    """Where a training began, in words; a warning where it left a checkpoint that was offered to it unused."""
    if start.resumed:
        source = f", from {start.source}" if start.source else ""
        at = f" at step {start.step}" if start.step is not None else " at a step that its optimizer does not count"
        return Anomaly("resume", "info", f"resumed{at}{source}", (start.step or 0) + 1)
    name = os.path.basename(offered.rstrip("/"))
    files = "files of it were read" if read else "no file of it was seen to be read"
    words = (
        f"started again at step 0: its optimizer holds no state of {name}, and {files}. To resume, a script passes "
        'os.environ.get("HALFSTEP_RESUME_FROM") or None to trainer.train(resume_from_checkpoint=...)'
    )
    return Anomaly("resume", "warning", words, 1)


def _numbered(optimizer: Any) -> List[Tuple[str, Any]]:
    return [(str(at), p) for at, p in trained_by(optimizer)]


def _has_gradients(optimizer: Any) -> bool:
    return any(p.grad is not None for p in parameters_of(optimizer))


def _size(optimizer: Any) -> int:
    return sum(p.numel() for p in parameters_of(optimizer))


def _is_strange(losses: List[float], norm: Optional[float]) -> bool:
    """Weights that are not finite show in the loss or in the norm, or where NaN is replaced, in a loss of 0.0."""
    finite = all(math.isfinite(loss) for loss in losses) and (norm is None or math.isfinite(norm))
    return not finite or (bool(losses) and not any(losses))


def _sum(losses: List[float]) -> Optional[float]:
    """What the step descends: a script that accumulates divides each micro-step's loss by their number."""
    return _finite(sum(losses)) if losses else None


def _finite(value: Optional[float]) -> Optional[float]:
    """JSON has no NaN: what is not finite is left out here and told in watch.jsonl."""
    return value if value is not None and value - value == 0 else None
