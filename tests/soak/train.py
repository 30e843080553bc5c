"""The training script of the soak: with torch under a proof, otherwise in plain Python, which is much cheaper.

SOAK_TORCH=1 uses torch in the run too. SOAK_ROOT is the folder of halfstep's modules.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.append(os.environ["SOAK_ROOT"])

from remote.payload.checkpoints.files import MANIFEST
from tests.lab.records import pack_record
from tests.remote.jobs.fake_trainer import resumed_step, save, say, write_progress, write_tensors

RUN = Path(os.environ["HALFSTEP_RUN_DIR"])
CHECKPOINTS = Path(os.environ["HALFSTEP_OUTPUT_DIR"])
PROVED = "HALFSTEP_PROOF" in os.environ
STEPS = 24
SAVE_EVERY = 6
STEP_S = 0.02


@contextlib.contextmanager
def report_overlap() -> Iterator[None]:
    """Write an `overlap` event if another training runs in the same home."""
    with (Path.home() / "training.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("overlap")
        yield


def train_in_torch(on_step: Callable[[int, float], None]) -> float:
    """Train a small regression with a fixed seed, and return its loss."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    inputs = torch.randn(64, 8)
    wanted = inputs.sum(1, keepdim=True).sin()
    for step in range(1, STEPS + 1):
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        on_step(step, loss.item())
    return float(loss.item())


def train_in_python(on_step: Callable[[int, float], None]) -> float:
    """Run steps that only sleep, with checkpoints in the Trainer's layout."""
    begun = resumed_step()
    write_progress(begun, STEPS)
    for step in range(begun + 1, STEPS + 1):
        loss = 2.0 / (step + 1)
        on_step(step, loss)
        write_progress(step, STEPS)
        if step % SAVE_EVERY == 0:
            save(str(CHECKPOINTS), step)
        time.sleep(STEP_S)
    return 2.0 / (STEPS + 1)


def scalar(step: int, value: float) -> bytes:
    """Return one `train/loss` event of TensorBoard (tensorflow/core/util/event.proto)."""
    tag = b"train/loss"
    point = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(point)]) + point
    head = b"\x09" + struct.pack("<d", time.time()) + b"\x10" + bytes([step])
    return pack_record(head + b"\x2a" + bytes([len(summary)]) + summary)


def verified_steps() -> list[int]:
    return sorted(int(path.parent.name.rpartition("-")[2]) for path in CHECKPOINTS.glob(f"checkpoint-*/{MANIFEST}"))


def main() -> None:
    torch_wanted = PROVED or bool(os.environ.get("SOAK_TORCH"))
    name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}.0"
    folder = Path(os.environ["HALFSTEP_TENSORBOARD_DIR"])
    with report_overlap(), (folder / name).open("ab", buffering=0) as events:
        say("begin", job=os.environ.get("HALFSTEP_JOB", ""), resume=resumed_step(), verified=verified_steps())
        train = train_in_torch if torch_wanted else train_in_python
        loss = train(lambda step, value: events.write(scalar(step, value)))
    adapter = RUN / "adapter"
    adapter.mkdir(exist_ok=True)
    write_tensors(str(adapter / "adapter_model.safetensors"), bytes(range(256)))
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 4, "peft_type": "LORA"}))
    part = RUN / "loss.part"
    part.write_text(json.dumps({"loss": round(loss, 6)}))
    part.replace(RUN / "loss.json")
    say("end")


if __name__ == "__main__":
    main()
