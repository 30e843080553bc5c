"""Validation: the loss on held-out recordings, which selects the best adapter and may stop the training early."""

from __future__ import annotations

import copy
import json
import logging
import os
from dataclasses import dataclass
from typing import Any, Iterator, List, Optional

import torch
from peft import set_peft_model_state_dict
from safetensors.torch import load_file
from transformers import TrainerCallback

from remote.payload.files.records import read_record, write_record
from remote.payload.training.collator import Collator
from remote.payload.training.generate import autocast_of
from remote.payload.training.label_loss import IGNORED
from remote.payload.training.samples import SampleSet
from remote.payload.training.saving import ADAPTER_RECORD, ADAPTER_WEIGHTS, export_adapter
from remote.protocol.training import TrainingSpec

RECORD = "validation.json"
BEST = "best"
log = logging.getLogger("halfstep")


@dataclass(frozen=True)
class Measured:
    """The validation loss after an optimizer step."""

    step: int
    loss: float


@dataclass(frozen=True)
class History:
    """The losses of a run so far, in order of steps."""

    measured: List[Measured]

    @property
    def best(self) -> Optional[Measured]:
        """The first of the lowest losses, or None if there is none. NaN is never the lowest."""
        return min((one for one in self.measured if one.loss == one.loss), key=lambda one: one.loss, default=None)

    def stopped_improving(self, patience: int) -> bool:
        """Return True if none of the last `patience` losses is lower than the best loss before them."""
        best = self.best
        return best is None or sum(one.step > best.step for one in self.measured) >= patience

    def up_to(self, step: int) -> History:
        """Return the history without steps that will be trained again."""
        return History([one for one in self.measured if one.step <= step])


class Validation(TrainerCallback):  # type: ignore[misc]
    """Measures every `eval_steps` optimizer steps and after the last one, with all ranks.

    It uses no random numbers and restores the mode of the model, so it does not affect the training.
    """

    def __init__(self, samples: SampleSet, collator: Collator, spec: TrainingSpec) -> None:
        self.samples = samples
        self.collator = collator
        self.spec = spec
        self.trainer: Any = None
        self.reporter: Any = None
        self.history = History([])

    @property
    def _record(self) -> str:
        return os.path.join(self.spec.paths.run, RECORD)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        known = read_record(self._record, History) or History([])
        self.history = known.up_to(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        assert self.spec.train.eval_steps is not None
        if state.global_step % self.spec.train.eval_steps and state.global_step < state.max_steps:
            return
        before = self.history.best
        measured = Measured(state.global_step, self._measure(args))
        self.history = History([*self.history.measured, measured])
        if state.is_local_process_zero:
            if self.history.best is measured:
                folder = os.path.join(self.spec.paths.run, BEST)
                export_adapter(self.trainer.model, folder, step=measured.step, base=self.spec.model.id)
            write_record(self._record, self.history)
            if self.reporter.writer is not None:
                self.reporter.writer.add_scalar("eval/loss", measured.loss, measured.step)
            # The Trainer does not log this loss, because it would count it as the loss of a step. `on_log` resets
            # `should_log`, after which this rank alone would leave out the step's own log and its all-gather.
            self.trainer.callback_handler.on_log(args, state, copy.copy(control), {"eval_loss": measured.loss})
            self.reporter.refresh_progress()
        lowest = f"lowest {before.loss:.4f} at step {before.step}" if before is not None else "the first"
        log.info("validation loss %.4f (%s)", measured.loss, lowest)
        patience = self.spec.train.early_stop
        if patience is not None and self.history.stopped_improving(patience):
            log.info("stopping early: no lower validation loss in the last %d evaluations", patience)
            control.should_save = True
            control.should_training_stop = True

    def _measure(self, args: Any) -> float:
        """Return the mean loss per label over all samples. Every rank must call this."""
        model = self.trainer.model
        total = torch.zeros(2, dtype=torch.float64, device=args.device)
        model.eval()
        try:
            for batch in self._batches(args):
                with torch.no_grad(), autocast_of(args.device, self.spec):
                    loss = model(**batch, num_items_in_batch=1).loss
                labelled = (batch["labels"][:, 1:] != IGNORED).sum()
                total += torch.stack((loss.double(), labelled.double()))
        finally:
            model.train()
        if args.world_size > 1:
            torch.distributed.all_reduce(total)
        return float(total[0] / total[1])

    def _batches(self, args: Any) -> Iterator[Any]:
        size = args.per_device_train_batch_size
        order = sorted(range(len(self.samples)), key=lambda i: len(self.samples.samples[i]))
        for start in range(args.process_index * size, len(order), size * args.world_size):
            made = self.collator([self.samples[i] for i in order[start : start + size]])
            yield {name: value.to(args.device) for name, value in made.items() if isinstance(value, torch.Tensor)}

    def restore_best(self, step: int) -> int:
        """Load the best adapter into the model and return its step. Without one, keep the model and return `step`."""
        best, folder = self.history.best, os.path.join(self.spec.paths.run, BEST)
        if best is None or best.step == step or _step_of(folder) != best.step:
            return step
        set_peft_model_state_dict(self.trainer.model, load_file(os.path.join(folder, ADAPTER_WEIGHTS)))
        log.info("the adapter of step %d has the lowest validation loss, %.4f", best.step, best.loss)
        return best.step


def _step_of(folder: str) -> int:
    try:
        with open(os.path.join(folder, ADAPTER_RECORD), encoding="utf-8") as file:
            return int(json.load(file)["step"])
    except (OSError, ValueError, KeyError):
        return -1
