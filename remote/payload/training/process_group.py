"""The processes of a distributed training: whether they are on several hosts, and how they leave their group."""

from __future__ import annotations

import gc
import os
from typing import Any, List

import torch
import torch.distributed as dist

# Import this module before a group exists. Otherwise its default arguments would keep a reference to the group.
import torch.distributed.nn
from transformers import Trainer

from remote.payload.training.failure import TrainingFailed

LARGEST_SHARE = 2**30
"""The largest number of bytes that one rank may send in `gather_bytes`."""


def on_several_hosts() -> bool:
    """Return True if torchrun started processes on other hosts too."""
    return int(os.environ.get("WORLD_SIZE", "1")) > int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def shares_run_folder() -> bool:
    """Return True if the hosts share one run folder, on the file system of a Slurm cluster."""
    return os.environ.get("HALFSTEP_SHARED_RUN") == "1"


def gather_bytes(data: bytes, device: Any) -> List[bytes]:
    """Return the data of every rank, in the order of ranks. Every rank must call this.

    Unlike `all_gather_object`, it never unpickles what arrives at the ports of the training.
    """
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([len(data)], device=device))
    longest = max(int(size) for size in sizes)
    if longest > LARGEST_SHARE or min(int(size) for size in sizes) < 0:
        raise TrainingFailed("share-invalid", f"another rank sent {longest:,} bytes")
    padded = torch.frombuffer(bytearray(data.ljust(max(1, longest), b"\0")), dtype=torch.uint8).to(device)
    shares = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(shares, padded)
    return [share.cpu().numpy().tobytes()[: int(size)] for share, size in zip(shares, sizes)]


def leave_process_group(trainer: Trainer) -> None:
    """Destroy the group with its threads, and unwrap `trainer.model`. Every rank must call this.

    A gloo thread that needs the GIL after the interpreter has exited aborts the process. torchrun then ends the other
    ranks, including rank 0 while it evaluates (torch 2.13, `~AsyncWork`).
    """
    if not dist.is_available() or not dist.is_initialized():
        return
    trainer.model_wrapped = trainer.model
    trainer.accelerator.free_memory()
    gc.collect()
    dist.destroy_process_group()
