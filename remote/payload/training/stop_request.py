"""SIGTERM asks for an end: at the next optimizer step there is a checkpoint, then training stops."""

from __future__ import annotations

import logging
import signal
from typing import Any

import torch
from transformers import TrainerCallback

from remote.payload.training.failure import Preempted

log = logging.getLogger("halfstep")


class StopRequest(TrainerCallback):  # type: ignore[misc]
    """`asked` once SIGTERM came. Between two steps every rank learns of it, so that all save the same checkpoint."""

    def __init__(self) -> None:
        self.asked = False
        self.training = False

    def listen(self) -> None:
        """SIGTERM is a request from now on, not an end."""
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: Any) -> None:
        self.asked = True
        if not self.training:
            raise Preempted

    def on_train_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        self.training = True

    def on_step_end(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        if args.world_size > 1:
            asked = torch.tensor(int(self.asked), device=args.device)
            torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
            self.asked = bool(asked)
        if self.asked:
            log.info("stop asked for: saving a checkpoint at step %d", state.global_step)
            control.should_save = True
            control.should_training_stop = True

    def settle(self) -> None:
        """Training is over: a stop that was asked for takes effect, a later one does at once. Raises Preempted."""
        self.training = False
        if self.asked:
            raise Preempted
