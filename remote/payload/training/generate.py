"""Generate a model's answers to samples, in batches, with the decoding settings of the config."""

from __future__ import annotations

import logging
from typing import Any, Callable, Dict, List, Sequence

import torch

from remote.payload.training.answers import AnswerLog
from remote.payload.training.base_model import BaseModel
from remote.payload.training.collator import Collator
from remote.payload.training.samples import Sample, SampleSet
from remote.protocol.dataclass import dataclass
from remote.protocol.training import TrainingSpec

SPARE_TOKENS = 16
LOG_EVERY = 20
log = logging.getLogger("halfstep")


@dataclass(frozen=True)
class Generator:
    """A loaded model and the samples to answer. Each of `ranks` processes answers its share of the batches."""

    model: Any
    base: BaseModel
    collator: Collator
    samples: SampleSet
    spec: TrainingSpec
    device: Any
    rank: int = 0
    ranks: int = 1

    def answer_all(self, key: str, answers: AnswerLog, report: Callable[[], None]) -> None:
        """Generate the missing answers of the model `key` to the samples of this rank, longest prompts first.

        `report` is called after each batch.
        """
        self.model.eval()
        order = sorted(range(len(self.samples)), key=lambda i: -len(self.samples.samples[i].prompt))
        size = self.spec.evaluation.batch_size or self.spec.train.batch_size
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        for number in range(self.rank, len(batches), self.ranks):
            left = {sample.id for sample in answers.missing(key, (self.samples.samples[i] for i in batches[number]))}
            items = [self.samples[i] for i in batches[number] if self.samples.samples[i].id in left]
            if items:
                # Sampled answers depend only on the seed and the batch, not on earlier answers.
                torch.manual_seed(self.spec.evaluation.seed + number)
                answers.append(key, [sample for sample, _ in items], self._answer(items))
                report()
                if number // self.ranks % LOG_EVERY == 0:
                    log.info("answered %d of %d batches", number + 1, len(batches))

    def _answer(self, items: Sequence[Any]) -> List[str]:
        """Answer one batch. If the batch does not fit into the card's memory, answer it in halves."""
        try:
            return self._generate(items)
        except torch.OutOfMemoryError:
            if len(items) == 1:
                raise
        torch.cuda.empty_cache()
        half = len(items) // 2
        log.info("a batch of %d does not fit into memory: answering it in halves", len(items))
        return self._answer(items[:half]) + self._answer(items[half:])

    def _generate(self, items: Sequence[Any]) -> List[str]:
        inputs = {name: value.to(self.device) for name, value in self.collator.prompts(items).items()}
        with torch.no_grad(), autocast_of(self.device, self.spec):
            output = self.model.generate(
                **inputs,
                **_decoding(self.spec),
                max_new_tokens=self.spec.evaluation.max_new_tokens or _longest(self.samples.samples),
                eos_token_id=items[0][0].end[0],
                pad_token_id=self.base.pad_id,
                # The audio placeholder is suppressed, because a generated placeholder would have no audio features.
                suppress_tokens=[self.base.tokenizer.convert_tokens_to_ids(self.base.family.placeholder)],
                use_cache=True,
            )
        texts: List[str] = self.base.tokenizer.batch_decode(
            output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True
        )
        return texts


def _decoding(spec: TrainingSpec) -> Dict[str, Any]:
    decoding = spec.evaluation
    if not decoding.temperature:
        return {"do_sample": False}
    # Without top_k=0, transformers would use its default of 50.
    return {"do_sample": True, "temperature": decoding.temperature, "top_p": decoding.top_p, "top_k": 0}


def _longest(samples: Sequence[Sample]) -> int:
    return max(len(sample.answer) + len(sample.end) for sample in samples) + SPARE_TOKENS


def autocast_of(device: Any, spec: TrainingSpec) -> Any:
    """Return the autocast context of the precision plan."""
    dtype = spec.precision.autocast_dtype
    return torch.autocast(device.type, dtype=getattr(torch, dtype or "float32"), enabled=dtype is not None)
