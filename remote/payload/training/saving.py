"""Publishing trainer checkpoints with their digests, rotating old ones, and exporting the adapter."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from typing import Any, Dict

from transformers import TrainerCallback

from remote.payload.checkpoints.files import BrokenCheckpoint
from remote.payload.checkpoints.published import publish, rotate, verify
from remote.payload.files.atomic import sync_folder, write_atomic
from remote.payload.training.failure import TrainingFailed
from remote.protocol.exits import ExitCode
from remote.protocol.values import dumps

ADAPTER_RECORD = "halfstep-adapter.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"


class Publisher(TrainerCallback):  # type: ignore[misc]
    """Publishes what Trainer saved as a trainer checkpoint to resume from; saves each step once."""

    def __init__(self, keep: int, scaler: bool) -> None:
        self.keep = keep
        self.scaler = scaler
        self.trainer: Any = None
        self.published = -1

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.accelerator.wait_for_everyone()
        if state.is_world_process_zero:
            folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
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


def check_resume(folder: str) -> None:
    """Verify the trainer checkpoint to resume from. Raises TrainingFailed with exit code 43."""
    problem = verify(folder)
    if problem:
        raise TrainingFailed(
            "checkpoint-broken", f"{folder}: {problem}", hint="pipeline run", exit_code=ExitCode.CHECKPOINT
        )


def export_adapter(model: Any, folder: str, *, step: int, base: str) -> str:
    """Write the adapter to `folder` atomically, with a record of digests; return the SHA-256 of its weights."""
    parent = os.path.dirname(folder)
    os.makedirs(parent, exist_ok=True)
    part = tempfile.mkdtemp(prefix=".adapter-", dir=parent)
    try:
        model.save_pretrained(part, safe_serialization=True)
        files = {name: _sha256(os.path.join(part, name)) for name in sorted(os.listdir(part))}
        record: Dict[str, Any] = {"sha256": files[ADAPTER_WEIGHTS], "files": files, "step": step, "base": base}
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


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        data = file.read()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()
