"""Leaving the process group of a distributed training."""

from __future__ import annotations

import gc

import torch.distributed as dist

# If this module is first imported while a group exists (by DistributedDataParallel), its default arguments hold it.
import torch.distributed.nn  # noqa: F401
from transformers import Trainer


def leave_process_group(trainer: Trainer) -> None:
    """Destroy the group with its threads, and unwrap `trainer.model`; every rank must call this.

    A gloo thread that needs the GIL after the interpreter has exited aborts the process, and torchrun then ends the
    other ranks, including rank 0 while it evaluates (torch 2.13, `~AsyncWork`).
    """
    if not dist.is_available() or not dist.is_initialized():
        return
    trainer.model_wrapped = trainer.model
    trainer.accelerator.free_memory()
    gc.collect()
    dist.destroy_process_group()
