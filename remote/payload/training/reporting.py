"""What is seen of a run while it trains: progress.json, TensorBoard scalars, samples.jsonl and one line a step."""

from __future__ import annotations

import json
import logging
import os
import resource
import time
from dataclasses import replace
from typing import Any, Dict

import torch
from torch.utils.tensorboard import SummaryWriter
from transformers import TrainerCallback

from remote.payload.files.atomic import write_whole
from remote.protocol.jobs import Progress
from remote.protocol.values import dumps

PROGRESS = "progress.json"
SAMPLES = "samples.jsonl"
log = logging.getLogger("halfstep")


class Reporter(TrainerCallback):  # type: ignore[misc]
    """Writes on one rank only. Scalars are `train/NAME`, by optimizer step; a resumed run drops those it takes back."""

    def __init__(self, run: str, tensorboard: str) -> None:
        self.run = run
        self.tensorboard = tensorboard
        self.trainer: Any = None
        self.writer: Any = None
        self.began = 0.0
        self.first = 0
        self.seconds = 0.0
        self.tokens_per_second = 0.0
        self.progress = Progress(0)

    def still_at_work(self) -> None:
        """progress.json is of now: what comes after the last step takes its time, and is no stall."""
        self.progress = replace(self.progress, at_unix=time.time())
        write_whole(os.path.join(self.run, PROGRESS), dumps(self.progress) + b"\n")

    def on_train_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        if not state.is_world_process_zero:
            return
        self.first = state.global_step
        resumed = state.global_step > 0
        self.writer = SummaryWriter(self.tensorboard, purge_step=state.global_step + 1 if resumed else None)
        _forget_after(os.path.join(self.run, SAMPLES), state.global_step)
        self._write_progress(state, {}, told["optimizer"])

    def on_step_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        self.began = time.monotonic()
        self.trainer.step_samples, self.trainer.step_losses, self.trainer.step_tokens = [], [], 0

    def on_step_end(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        self.seconds = time.monotonic() - self.began
        self.tokens_per_second = self.trainer.step_tokens * args.world_size / max(self.seconds, 1e-9)
        if state.is_world_process_zero:
            line = json.dumps({"step": state.global_step, "ids": self.trainer.step_samples})
            with open(os.path.join(self.run, SAMPLES), "a", encoding="utf-8") as file:
                file.write(line + "\n")

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **told: Any) -> None:
        if self.writer is None or "loss" not in logs:
            return
        scalars = {
            "loss": float(logs["loss"]),
            "grad_norm": float(logs.get("grad_norm", 0.0)),
            "learning_rate": float(logs["learning_rate"]),
            "skipped_steps": float(state.global_step - applied_steps(told["optimizer"])),
            "tokens_per_second": self.tokens_per_second,
            "peak_memory": float(peak_bytes()),
        }
        if self.trainer.accelerator.scaler is not None:
            scalars["loss_scale"] = float(self.trainer.accelerator.scaler.get_scale())
        for name, value in scalars.items():
            self.writer.add_scalar(f"train/{name}", value, state.global_step)
        self.writer.flush()
        self._write_progress(state, scalars, told["optimizer"])
        log.info("%s", render_step(state.global_step, state.max_steps, scalars, self.seconds))

    def on_train_end(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        if self.writer is not None:
            self.writer.close()

    def _write_progress(self, state: Any, scalars: Dict[str, float], optimizer: Any) -> None:
        self.progress = Progress(
            step=state.global_step,
            steps=state.max_steps,
            loss=scalars.get("loss"),
            grad_norm=scalars.get("grad_norm"),
            loss_scale=scalars.get("loss_scale"),
            skipped_steps=int(scalars.get("skipped_steps", state.global_step - applied_steps(optimizer))),
            step_seconds=self.seconds or None,
            peak_bytes=peak_bytes(),
            began=self.first,
        )
        self.still_at_work()


def applied_steps(optimizer: Any) -> int:
    """Optimizer steps that changed a weight, as Adam itself counts them: skipped ones are not among them."""
    return max((int(state["step"]) for state in optimizer.state.values() if "step" in state), default=0)


def peak_bytes() -> int:
    """The most memory held so far: on the card where there is one, of the process otherwise."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def render_step(step: int, steps: int, scalars: Dict[str, float], seconds: float) -> str:
    """One optimizer step for people."""
    scale = f"  scale {scalars['loss_scale']:g}" if "loss_scale" in scalars else ""
    skipped = f"  skipped {scalars['skipped_steps']:.0f}" if scalars["skipped_steps"] else ""
    speed = f"{seconds:.2f} s  {scalars['tokens_per_second']:.0f} tok/s"
    return (
        f"step {step}/{steps}  loss {scalars['loss']:.4f}  grad {scalars['grad_norm']:.3f}"
        f"  lr {scalars['learning_rate']:.2e}{scale}{skipped}  {speed}"
    )


def _forget_after(path: str, step: int) -> None:
    """Lines of steps that will be trained again are gone."""
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        kept = [line for line in file if line.endswith("\n") and json.loads(line)["step"] <= step]
    write_whole(path, "".join(kept).encode())
