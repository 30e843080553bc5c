"""The content of progress.json: the newest step and facts about the whole training."""

from __future__ import annotations

import math
import os
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .device import peak_bytes
from .foreign import read
from .step import Step

LARGEST_FILE = 2**28
LIGHTNING = ("lightning.", "pytorch_lightning.")


class MeanLoss:
    """The mean loss over the newest optimizer steps: the same class as in remote/protocol/loss.py.

    The hooks run in other programs as a package of their own, so they cannot import it. test_loss.py compares both.
    """

    def __init__(self) -> None:
        self.mean: Optional[float] = None
        self.lowest: Optional[float] = None
        self.first: Optional[float] = None
        self._front: List[Tuple[int, float]] = []
        self._back: List[Tuple[int, float]] = []
        self._back_sum = 0.0

    def add(self, step: int, loss: float) -> None:
        """Add the finite loss of a step."""
        if self.first is None:
            self.first = loss
        self._back.append((step, loss))
        self._back_sum += loss
        while (self._front[-1] if self._front else self._back[0])[0] <= step - max(10, step // 30):
            self._drop_oldest()
        total = self._back_sum + (self._front[-1][1] if self._front else 0.0)
        self.mean = total / (len(self._front) + len(self._back))
        if self.lowest is None or self.mean < self.lowest:
            self.lowest = self.mean

    def _drop_oldest(self) -> None:
        """Drop the oldest loss, as in remote/protocol/loss.py."""
        if not self._front:
            total = 0.0
            for step, loss in reversed(self._back):
                total += loss
                self._front.append((step, total))
            self._back.clear()
            self._back_sum = 0.0
        self._front.pop()


class LossFile:
    """The loss of each optimizer step of the run, one step per line. A resumed job continues the file of earlier jobs.

    If `path` is "", nothing is read or written.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._new: List[str] = []
        self._opened = False

    def open(self, began: int) -> Iterator[Tuple[int, float]]:
        """Remove the steps after `began`, which this job trains again, and yield the others."""
        kept = [row for row in self._rows() if row[0] <= began]
        self._opened, self._new = False, [_line(*row) for row in kept]
        yield from kept

    def add(self, step: int, loss: float) -> None:
        """Add a step. `write` saves it."""
        self._new.append(_line(step, loss))

    def write(self) -> None:
        """Append the new steps to the file. The first call replaces the file."""
        if not self.path or (self._opened and not self._new):
            return
        how = os.O_APPEND if self._opened else os.O_TRUNC
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | how, 0o644)
        try:
            os.write(descriptor, "".join(self._new).encode())
        finally:
            os.close(descriptor)
        self._opened, self._new = True, []

    def _rows(self) -> Iterator[Tuple[int, float]]:
        """Yield the complete lines of the file, in order. A line that was cut by a crash is skipped."""
        try:
            with open(self.path, encoding="ascii", errors="replace") as file:
                lines = file.read(LARGEST_FILE).split("\n")[:-1] if self.path else []
        except OSError:
            return
        for line in lines:
            step, _, loss = line.partition(" ")
            try:
                if math.isfinite(float(loss)):
                    yield int(step), float(loss)
            except ValueError:
                continue


def _line(step: int, loss: float) -> str:
    return f"{step} {loss!r}\n"


class ProgressRecord:
    """Collects the loss and the pace of training. `losses` is the path of its LossFile, or "".

    `planned` is the number of planned optimizer steps, or None if unknown.
    """

    def __init__(self, losses: str = "") -> None:
        self.planned = int(os.environ.get("HALFSTEP_STEPS") or 0) or None
        self.loss = MeanLoss()
        self.file = LossFile(losses)
        self._first: Optional[int] = None
        self._first_ended = 0.0

    def find_planned(self) -> None:
        """Look for the number of planned steps in the trainers on the stack, unless it is known."""
        self.planned = self.planned or planned_steps_of(_callers())

    def restart(self) -> None:
        """Forget the steps of this job, because they were those of another optimizer."""
        self.loss, self._first = MeanLoss(), None

    def row(self, step: Step, *, began: Optional[int], skipped: int, foreign: int = 0) -> Dict[str, Any]:
        """Return the fields of jobs.Progress. The loss of a step is the sum over its micro-batches.

        The first `foreign` losses of the step are not part of this sum: they belong to steps of other optimizers.
        """
        now = time.monotonic()
        if self._first is None:
            self._first, self._first_ended = step.number, now
            for earlier in self.file.open(began or 0):
                self.loss.add(*earlier)
        done = step.number - self._first
        number = (began or 0) + step.number
        loss = _finite(sum(step.losses[foreign:])) if step.losses[foreign:] else None
        if loss is not None:
            self.loss.add(number, loss)
            self.file.add(number, loss)
        return {
            "step": number,
            "steps": self.planned,
            "began": began,
            "loss": self.loss.mean,
            "best_loss": self.loss.lowest,
            "first_loss": self.loss.first,
            "grad_norm": _finite(step.grad_norm),
            "loss_scale": step.loss_scale,
            "skipped_steps": skipped,
            "step_seconds": step.seconds,
            "pace_seconds": (now - self._first_ended) / done if done else None,
            "peak_bytes": peak_bytes(),
            "at_unix": time.time(),
        }


def planned_steps_of(owners: Iterator[Any]) -> Optional[int]:
    """Return the planned optimizer steps of the first trainer (transformers, TRL, Lightning) in `owners`, or None."""
    for owner in owners:
        modules = [kind.__module__ for kind in type(owner).__mro__]
        if "transformers.trainer" in modules:
            return _count(read(owner, "state", "max_steps"))
        trainer = read(owner, "trainer") if modules[0].startswith(LIGHTNING) else None
        module = read(trainer, "lightning_module")
        if read(module, "automatic_optimization"):
            return _count(read(trainer, "estimated_stepping_batches"))
    return None


def _callers() -> Iterator[Any]:
    """Yield the objects whose methods are running, innermost first."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_argcount and frame.f_code.co_varnames[0] == "self":
            variables = frame.f_locals
            owner = variables.get("self")
            # Before Python 3.13, f_locals is a copy that exists as long as the frame, and would keep the first batch in
            # memory.
            if isinstance(variables, dict):
                variables.clear()
            yield owner
        frame = frame.f_back


def _count(value: Any) -> Optional[int]:
    """Return a number of steps, or None for -1 and infinity, which mean that there is no limit."""
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) and value > 0 else None


def _finite(value: Optional[float]) -> Optional[float]:
    """Return None for NaN and infinity, which JSON cannot represent. watch.jsonl reports them."""
    return value if value is not None and math.isfinite(value) else None
