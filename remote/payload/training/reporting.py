"""Report a run while it trains: progress.json, TensorBoard scalars, samples.jsonl and a log line per step."""

from __future__ import annotations

import json
import logging
import math
import os
import resource
import time
from dataclasses import replace
from typing import Any, Dict, Optional

import torch
from torch.utils.tensorboard import SummaryWriter
from transformers import TrainerCallback

from remote.payload.files.atomic import write_atomic
from remote.protocol.jobs import Progress
from remote.protocol.loss import MeanLoss
from remote.protocol.values import dumps

PROGRESS = "progress.json"
SAMPLES = "samples.jsonl"
log = logging.getLogger("halfstep")


class Reporter(TrainerCallback):  # type: ignore[misc]
    """Writes scalars on rank 0 only, and progress on one rank of each host.

    Scalars are named `train/NAME`, by optimizer step. A resumed run removes the scalars of steps that it repeats.
    """

    def __init__(self, run: str, tensorboard: str, memory: str = "") -> None:
        self.run = run
        self.memory = memory
        self.tensorboard = tensorboard
        self.trainer: Any = None
        self.writer: Any = None
        self.began = 0.0
        self.first = 0
        self.seconds = 0.0
        self.first_ended = 0.0
        self.tokens_per_second = 0.0
        self.loss = MeanLoss()
        self.progress = Progress(0)

    def refresh_progress(self) -> None:
        """Write progress.json with the current time, so that work after the last step does not count as a stall."""
        self.progress = replace(self.progress, at_unix=time.time())
        write_atomic(os.path.join(self.run, PROGRESS), dumps(self.progress) + b"\n")

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not state.is_local_process_zero:
            return
        self.first = state.global_step
        resumed = state.global_step > 0
        if state.is_world_process_zero:
            self.writer = SummaryWriter(self.tensorboard, purge_step=state.global_step + 1 if resumed else None)
        _truncate_after(os.path.join(self.run, SAMPLES), state.global_step)
        for row in state.log_history:
            self._add_loss(row["step"], row.get("loss"))
        self._write_progress(state, {}, kwargs["optimizer"])

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.began = time.monotonic()
        self.trainer.step_samples, self.trainer.step_tokens = [], 0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        now = time.monotonic()
        self.seconds = now - self.began
        self.first_ended = self.first_ended or now
        self.tokens_per_second = self.trainer.step_tokens * args.world_size / max(self.seconds, 1e-9)
        if state.is_local_process_zero:
            line = json.dumps({"step": state.global_step, "ids": self.trainer.step_samples})
            with open(os.path.join(self.run, SAMPLES), "a", encoding="utf-8") as file:
                file.write(line + "\n")

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if not state.is_local_process_zero or "loss" not in logs:
            return
        scalars = {
            "loss": float(logs["loss"]),
            "grad_norm": float(logs.get("grad_norm", 0.0)),
            "learning_rate": float(logs["learning_rate"]),
            "skipped_steps": float(state.global_step - applied_steps(kwargs["optimizer"])),
            "tokens_per_second": self.tokens_per_second,
            "peak_memory": float(peak_bytes()),
        }
        if self.trainer.accelerator.scaler is not None:
            scalars["loss_scale"] = float(self.trainer.accelerator.scaler.get_scale())
        if self.writer is not None:
            for name, value in scalars.items():
                self.writer.add_scalar(f"train/{name}", value, state.global_step)
            self.writer.flush()
        self._add_loss(state.global_step, scalars["loss"])
        self._write_progress(state, scalars, kwargs["optimizer"])
        log.info("%s", render_step(state.global_step, state.max_steps, scalars, self.seconds))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.writer is not None:
            self.writer.close()

    def _add_loss(self, step: int, loss: Optional[float]) -> None:
        if loss is not None and math.isfinite(loss):
            self.loss.add(step, loss)

    def _write_progress(self, state: Any, scalars: Dict[str, float], optimizer: Any) -> None:
        since = state.global_step - self.first - 1
        self.progress = Progress(
            step=state.global_step,
            steps=state.max_steps,
            loss=self.loss.mean,
            grad_norm=scalars.get("grad_norm"),
            loss_scale=scalars.get("loss_scale"),
            skipped_steps=int(scalars.get("skipped_steps", state.global_step - applied_steps(optimizer))),
            step_seconds=self.seconds or None,
            peak_bytes=peak_bytes(),
            began=self.first,
            best_loss=self.loss.lowest,
            first_loss=self.loss.first,
            pace_seconds=(time.monotonic() - self.first_ended) / since if since > 0 else None,
            tokens_per_second=scalars.get("tokens_per_second"),
            memory=self.memory,
        )
        self.refresh_progress()


def applied_steps(optimizer: Any) -> int:
    """Return the number of applied optimizer steps, as Adam counts them. Skipped steps do not count."""
    return max((int(state["step"]) for state in optimizer.state.values() if "step" in state), default=0)


def peak_bytes() -> int:
    """Return the peak memory in bytes: of the card if there is one, otherwise of the process."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def render_step(step: int, steps: int, scalars: Dict[str, float], seconds: float) -> str:
    """Return the log line of an optimizer step."""
    scale = f"  scale {scalars['loss_scale']:g}" if "loss_scale" in scalars else ""
    skipped = f"  skipped {scalars['skipped_steps']:.0f}" if scalars["skipped_steps"] else ""
    speed = f"{seconds:.2f} s  {scalars['tokens_per_second']:.0f} tok/s"
    return (
        f"step {step}/{steps}  loss {scalars['loss']:.4f}  grad {scalars['grad_norm']:.3f}"
        f"  lr {scalars['learning_rate']:.2e}{scale}{skipped}  {speed}"
    )


def _truncate_after(path: str, step: int) -> None:
    """Remove the lines of steps that will be trained again."""
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        remaining = [line for line in file if line.endswith("\n") and json.loads(line)["step"] <= step]
    write_atomic(path, "".join(remaining).encode())
