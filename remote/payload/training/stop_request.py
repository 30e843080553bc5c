"""Stop on SIGTERM: save a checkpoint at the next optimizer step, then end the training."""

from __future__ import annotations

import logging
import signal
from typing import Any

import torch
from transformers import TrainerCallback

from remote.payload.training.failure import Preempted

log = logging.getLogger("halfstep")


class StopRequest(TrainerCallback):  # type: ignore[misc]
    """Handles SIGTERM. `requested` is True after a SIGTERM.

    The ranks agree on the value after each step, so that all ranks save the same checkpoint.
    """

    def __init__(self) -> None:
        self.requested = False
        self.training = False

    def listen(self) -> None:
        """Start to handle SIGTERM as a request to stop."""
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: Any) -> None:
        self.requested = True
        if not self.training:
            raise Preempted

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # Python ignores exceptions in `__del__` and in callbacks of weak references, so Preempted from the signal
        # handler may have been lost.
        if self.requested:
            raise Preempted
        self.training = True

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if args.world_size > 1:
            requested = torch.tensor(int(self.requested), device=args.device)
            torch.distributed.all_reduce(requested, op=torch.distributed.ReduceOp.MAX)
            self.requested = bool(requested)
        if self.requested:
            log.info("stop requested: saving a checkpoint at step %d", state.global_step)
            control.should_save = True
            control.should_training_stop = True

    def settle(self) -> None:
        """End the training phase. A later SIGTERM takes effect at once. Raises Preempted if a stop was requested."""
        self.training = False
        if self.requested:
            raise Preempted
