"""Publish trainer checkpoints with their digests, rotate old checkpoints, and export the adapter."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from typing import Any, Dict, Mapping, Optional

import torch
from transformers import TrainerCallback

from remote.payload.checkpoints.files import STATE, BrokenCheckpoint, step_of
from remote.payload.checkpoints.found import find_checkpoints
from remote.payload.checkpoints.published import publish, rotate, verify
from remote.payload.files.atomic import sync_folder, write_atomic
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.process_group import gather_bytes, on_several_hosts
from remote.protocol.exits import ExitCode
from remote.protocol.training import TrainingPaths
from remote.protocol.values import dumps

ADAPTER_RECORD = "halfstep-adapter.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
log = logging.getLogger("halfstep")


class Publisher(TrainerCallback):  # type: ignore[misc]
    """Publishes each checkpoint that Trainer saves, so that a job can resume from it. Saves each step once.

    On several hosts, each host saves and publishes a complete checkpoint, unless they share the run's folder.
    """

    def __init__(self, keep: int, scaler: bool) -> None:
        self.keep = keep
        self.scaler = scaler
        self.trainer: Any = None
        self.published = -1

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        self.trainer.accelerator.wait_for_everyone()
        if on_several_hosts():
            share_random_states(folder, args)
        if args.should_save:
            try:
                publish(folder, world_size=args.world_size, scaler=self.scaler)
            except BrokenCheckpoint as error:
                raise TrainingFailed("checkpoint-broken", str(error), exit_code=ExitCode.CHECKPOINT) from error
            rotate(args.output_dir, self.keep)
        self.published = state.global_step
        self.trainer.accelerator.wait_for_everyone()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.published == state.global_step:
            control.should_save = False


def share_random_states(folder: str, args: Any) -> None:
    """Write the random state of every rank to the checkpoint of each host. Every rank must call this.

    Trainer stores each state only on the host of its rank. After a restart, another host may have that rank. On a
    shared file system, a file of another host might not be visible yet.
    """
    with open(_random_state(folder, args.process_index), "rb") as file:
        states = gather_bytes(file.read(), args.device)
    if args.should_save:
        for rank, state in enumerate(states):
            if not os.path.exists(_random_state(folder, rank)):
                write_atomic(_random_state(folder, rank), state)


def _random_state(folder: str, rank: int) -> str:
    return os.path.join(folder, f"rng_state_{rank}.pth")


def resume_point(paths: TrainingPaths, args: Any) -> str:
    """Return the checkpoint to resume from, or "" to start at step 0.

    At the start of a job, it is `paths.resume_from`. After a restart by torchrun, it is the newest checkpoint that all
    ranks could verify. Every rank must call this.
    """
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) == 0:
        return paths.resume_from
    whole = (step_of(folder) for folder in find_checkpoints(paths.run) if not verify(folder))
    newest = torch.tensor(max(whole, default=0), device=args.device)
    if args.world_size > 1:
        torch.distributed.all_reduce(newest, op=torch.distributed.ReduceOp.MIN)
    if not int(newest):
        return ""
    folder = os.path.join(paths.checkpoints, f"checkpoint-{int(newest)}")
    check_resume(folder)
    return folder


def warn_of_other_steps(folder: str, steps_per_epoch: int) -> None:
    """Log a warning if this job's optimizer steps have a different number of samples from those before the checkpoint.

    Trainer finds its position in an epoch by counting steps.
    """
    with open(os.path.join(folder, STATE), encoding="utf-8") as file:
        state = json.load(file)
    before = round(state["global_step"] / state["epoch"]) if state.get("epoch") else steps_per_epoch
    if before != steps_per_epoch:
        log.info(
            "warning: an epoch had %d optimizer steps at %s and has %d in this job: samples will be trained twice or "
            "left out; set train.gradient_accumulation so that batch size x accumulation x processes stays the same",
            before, os.path.basename(folder), steps_per_epoch,
        )  # fmt: skip


def check_resume(folder: str) -> None:
    """Verify the trainer checkpoint to resume from. Raises TrainingFailed with exit code 43."""
    problem = verify(folder)
    if problem:
        raise TrainingFailed(
            "checkpoint-broken", f"{folder}: {problem}", hint="pipeline run", exit_code=ExitCode.CHECKPOINT
        )


def export_adapter(
    model: Any, folder: str, *, step: int, base: str, revisions: Optional[Mapping[str, str]] = None
) -> str:
    """Write the adapter to `folder` atomically, with a record of digests; return the SHA-256 of its weights.

    `revisions` are the commits of the base model and the data, which evaluations and merges of this adapter use.
    """
    parent = os.path.dirname(folder)
    os.makedirs(parent, exist_ok=True)
    part = tempfile.mkdtemp(prefix=".adapter-", dir=parent)
    try:
        model.save_pretrained(part, safe_serialization=True)
        files = {name: file_digest(os.path.join(part, name)) for name in sorted(os.listdir(part))}
        record: Dict[str, Any] = {"sha256": files[ADAPTER_WEIGHTS], "files": files, "step": step, "base": base}
        if revisions:
            record["revisions"] = dict(revisions)
        write_atomic(os.path.join(part, ADAPTER_RECORD), dumps(record) + b"\n")
        os.chmod(part, 0o755)
        if os.path.isdir(folder):
            old = tempfile.mkdtemp(prefix=".adapter-", dir=parent)
            os.replace(folder, os.path.join(old, "old"))
            os.replace(part, folder)
            shutil.rmtree(old)
        else:
            os.replace(part, folder)
        sync_folder(parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return files[ADAPTER_WEIGHTS]


def file_digest(path: str) -> str:
    """Sync a written file to the disk and return its SHA-256."""
    with open(path, "rb") as file:
        data = file.read()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()
