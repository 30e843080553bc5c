"""The end of the group that the ranks of a training are in."""

from __future__ import annotations

import gc

import torch.distributed as dist

# First imported with the group there, as DistributedDataParallel does, it would hold the group as a default argument.
import torch.distributed.nn  # noqa: F401
from transformers import Trainer


def leave_process_group(trainer: Trainer) -> None:
    """The group is gone with its threads, and `trainer.model` is not wrapped any more; every rank calls this.

    A thread of gloo that wants the lock of a Python that has ended aborts the process, and torchrun then ends the
    other ranks, the first among them while it still evaluates. torch 2.13, `~AsyncWork`.
    """
    if not dist.is_available() or not dist.is_initialized():
        return
    trainer.model_wrapped = trainer.model
    trainer.accelerator.free_memory()
    gc.collect()
    dist.destroy_process_group()
