"""The processes of a distributed training: whether they are on several hosts, and how they leave their group."""

from __future__ import annotations

import gc
import os

import torch.distributed as dist

# Import this module before a group exists. Otherwise its default arguments would keep a reference to the group.
import torch.distributed.nn  # noqa: F401
from transformers import Trainer


def on_several_hosts() -> bool:
    """Return True if torchrun started processes on other hosts too."""
    return int(os.environ.get("WORLD_SIZE", "1")) > int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def shares_run_folder() -> bool:
    """Return True if the hosts share one run folder, on the file system of a Slurm cluster."""
    return os.environ.get("HALFSTEP_SHARED_RUN") == "1"


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
