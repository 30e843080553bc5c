"""Validation: loss or metric on held-out recordings, which selects the best adapter and may stop training early."""

from __future__ import annotations

import copy
import json
import logging
import math
import os
import tempfile
from dataclasses import replace
from typing import Any, Iterator, List, Optional

import torch
from peft import set_peft_model_state_dict
from safetensors.torch import load_file
from transformers import TrainerCallback

from remote.payload.files.records import read_record, write_record
from remote.payload.training.answers import AnswerLog
from remote.payload.training.base_model import BaseModel
from remote.payload.training.collator import Collator
from remote.payload.training.evaluate import judge_model
from remote.payload.training.generate import Generator, autocast_of
from remote.payload.training.label_loss import IGNORED
from remote.payload.training.process_group import gather_bytes
from remote.payload.training.samples import SampleSet
from remote.payload.training.saving import ADAPTER_RECORD, ADAPTER_WEIGHTS, export_adapter
from remote.protocol.dataclass import dataclass
from remote.protocol.evaluation import is_lower_better
from remote.protocol.training import LOSS, TrainingSpec

RECORD = "validation.json"
BEST = "best"
log = logging.getLogger("halfstep")


@dataclass(frozen=True)
class Measured:
    """The validation loss after an optimizer step. `metric` is None if `best_metric` is the loss or undefined."""

    step: int
    loss: float
    metric: Optional[float] = None


@dataclass(frozen=True)
class History:
    """The measurements of a run so far, in the order of steps."""

    measured: List[Measured]
    best_metric: str = LOSS

    def value_of(self, one: Measured) -> float:
        """Return the loss or the metric by which measurements are compared, or NaN if it is undefined."""
        if self.best_metric == LOSS:
            return one.loss
        return math.nan if one.metric is None else one.metric

    @property
    def best(self) -> Optional[Measured]:
        """The first of the best measurements, or None if there is no measurement. NaN is never the best."""
        sign = 1 if is_lower_better(self.best_metric) else -1
        defined = (one for one in self.measured if not math.isnan(self.value_of(one)))
        return min(defined, key=lambda one: sign * self.value_of(one), default=None)

    def stopped_improving(self, patience: int) -> bool:
        """Return True if none of the last `patience` measurements is better than the best measurement before them."""
        best = self.best
        return best is None or sum(one.step > best.step for one in self.measured) >= patience

    def up_to(self, step: int) -> History:
        """Return the history without steps that will be trained again."""
        return replace(self, measured=[one for one in self.measured if one.step <= step])


class Validation(TrainerCallback):  # type: ignore[misc]
    """Measures after every `eval_steps` optimizer steps and after the last step, with all ranks.

    It restores the random state and the mode of the model, so it does not affect the training.
    """

    def __init__(self, samples: SampleSet, base: BaseModel, collator: Collator, spec: TrainingSpec) -> None:
        self.samples = samples
        self.base = base
        self.collator = collator
        self.spec = spec
        self.trainer: Any = None
        self.reporter: Any = None
        self.history = History([], spec.train.best_metric)

    @property
    def _record(self) -> str:
        return os.path.join(self.spec.paths.run, RECORD)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        known = read_record(self._record, History)
        if known is not None and known.best_metric == self.history.best_metric:
            self.history = known.up_to(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        assert self.spec.train.eval_steps is not None
        if state.global_step % self.spec.train.eval_steps and state.global_step < state.max_steps:
            return
        before = self.history.best
        measured = Measured(state.global_step, self._measure(args), self._metric(args))
        self.history = replace(self.history, measured=[*self.history.measured, measured])
        if state.is_local_process_zero:
            if self.history.best is measured:
                folder = os.path.join(self.spec.paths.run, BEST)
                export_adapter(self.trainer.model, folder, step=measured.step, base=self.spec.model.id)
            write_record(self._record, self.history)
            if self.reporter.writer is not None:
                self.reporter.writer.add_scalar("eval/loss", measured.loss, measured.step)
                if measured.metric is not None:
                    name = f"validation/{self.history.best_metric}"
                    self.reporter.writer.add_scalar(name, measured.metric, measured.step)
            # Trainer.log is not used, because it would record this loss as the loss of a step. The callbacks get a copy
            # of `control`, because `on_log` resets `should_log`. This rank would then skip the log of the step and its
            # all-gather, in which the other ranks take part.
            self.trainer.callback_handler.on_log(args, state, copy.copy(control), {"eval_loss": measured.loss})
            self.reporter.refresh_progress()
        best = f"best {self._as_text(before)} at step {before.step}" if before is not None else "the first"
        log.info("validation %s (%s)", self._as_text(measured), best)
        patience = self.spec.train.early_stop
        if patience is not None and self.history.stopped_improving(patience):
            log.info(
                "stopping early: no better validation %s in the last %d evaluations", self.history.best_metric, patience
            )
            control.should_save = True
            control.should_training_stop = True

    def _measure(self, args: Any) -> float:
        """Return the mean loss per label over all samples. Every rank must call this method."""
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

    def _metric(self, args: Any) -> Optional[float]:
        """Return `best_metric` of the model's answers, or None if `best_metric` is the loss or undefined.

        Every rank must call this.

        Sampling of answers does not affect the random state of the training.
        """
        if self.history.best_metric == LOSS:
            return None
        model, cards = self.trainer.model, [args.device] if args.device.type == "cuda" else []
        ranks = args.process_index, args.world_size
        generator = Generator(model, self.base, self.collator, self.samples, self.spec, args.device, *ranks)
        with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=cards):
            answers = AnswerLog(folder)
            try:
                generator.answer_all(BEST, answers, self._refresh_progress)
            finally:
                model.train()
        if args.world_size > 1:
            for share in gather_bytes(answers.as_bytes(), args.device):
                answers.add(share)
        found = judge_model(BEST, self.samples, answers, resamples=0).get(self.history.best_metric)
        return None if found is None else found.value

    def _refresh_progress(self) -> None:
        if self.trainer.is_local_process_zero():
            self.reporter.refresh_progress()

    def _batches(self, args: Any) -> Iterator[Any]:
        size = args.per_device_eval_batch_size
        order = sorted(range(len(self.samples)), key=lambda i: len(self.samples.samples[i]))
        for start in range(args.process_index * size, len(order), size * args.world_size):
            made = self.collator([self.samples[i] for i in order[start : start + size]])
            yield {name: value.to(args.device) for name, value in made.items() if isinstance(value, torch.Tensor)}

    def restore_best(self, step: int) -> int:
        """Load the best adapter into the model and return its step.

        If there is no best adapter, keep the model and return `step`.
        """
        best, folder = self.history.best, os.path.join(self.spec.paths.run, BEST)
        if best is None or best.step == step or _step_of(folder) != best.step:
            return step
        set_peft_model_state_dict(self.trainer.model, load_file(os.path.join(folder, ADAPTER_WEIGHTS)))
        log.info("the adapter of step %d has the best validation %s", best.step, self._as_text(best))
        return best.step

    def _as_text(self, one: Measured) -> str:
        return f"{self.history.best_metric} {self.history.value_of(one):.4f}"


def _step_of(folder: str) -> int:
    try:
        with open(os.path.join(folder, ADAPTER_RECORD), encoding="utf-8") as file:
            return int(json.load(file)["step"])
    except (OSError, ValueError, KeyError):
        return -1
