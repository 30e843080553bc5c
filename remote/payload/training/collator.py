"""Collate samples into one batch of tensors, padded, with labels only for the answers."""

from __future__ import annotations

from typing import Any, Dict, Sequence, Tuple

import torch

from remote.payload.training.failure import TrainingFailed
from remote.payload.training.families.audio_model import AudioModel
from remote.payload.training.features import Clip
from remote.payload.training.label_loss import IGNORED, find_labels
from remote.payload.training.samples import Sample
from remote.payload.training.shared_prefix import is_shared, share_prefixes
from remote.protocol.dataclass import dataclass

SAMPLES = "samples"
"""The key in a batch for sample ids and token counts, which are not passed to the model."""
LABEL_POSITIONS = "label_positions"
LEAST_LABELLED = 0.005
MOST_LABELLED = 0.6


@dataclass(frozen=True)
class Collator:
    """Collates items of a SampleSet. Prompt, audio and padding positions are -100 in `labels`.

    A training batch is padded on the right, or consists of one row if the prompts have enough in common (`is_shared`).
    If `shares_prefixes` is False, no batch consists of one row. Generation batches are padded on the left, without
    answers.
    """

    model: AudioModel
    extractor: Any
    pad_id: int
    shares_prefixes: bool = True

    def __call__(self, items: Sequence[Tuple[Sample, Clip]]) -> Dict[str, Any]:
        shared = self.shares_prefixes and is_shared([sample for sample, _ in items])
        batch = self._shared(items) if shared else self._padded(items)
        return {
            **batch,
            LABEL_POSITIONS: find_labels(batch["labels"]),
            SAMPLES: [(sample.id, len(sample)) for sample, _ in items],
        }

    def _shared(self, items: Sequence[Tuple[Sample, Clip]]) -> Dict[str, Any]:
        row = share_prefixes([sample for sample, _ in items])
        return {
            "input_ids": row.ids,
            "attention_mask": row.visible,
            "position_ids": row.positions,
            "labels": row.labels,
            **self.model.pad(self.extractor, [items[number][1] for number in row.clips]),
        }

    def _padded(self, items: Sequence[Tuple[Sample, Clip]]) -> Dict[str, Any]:
        rows = [([*s.prompt, *s.answer, *s.end], [IGNORED] * len(s.prompt) + [*s.answer, *s.end]) for s, _ in items]
        longest = max(len(ids) for ids, _ in rows)
        labels = torch.tensor([labels + [IGNORED] * (longest - len(labels)) for _, labels in rows])
        return {
            "input_ids": torch.tensor([ids + [self.pad_id] * (longest - len(ids)) for ids, _ in rows]),
            "attention_mask": torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in rows]),
            "labels": labels,
            **self.model.pad(self.extractor, [clip for _, clip in items]),
        }

    def prompts(self, items: Sequence[Tuple[Sample, Clip]]) -> Dict[str, torch.Tensor]:
        """Return the batch for generation."""
        longest = max(len(sample.prompt) for sample, _ in items)
        missing = [longest - len(sample.prompt) for sample, _ in items]
        rows = [[self.pad_id] * gap + [*sample.prompt] for (sample, _), gap in zip(items, missing)]
        return {
            "input_ids": torch.tensor(rows),
            "attention_mask": torch.tensor([[0] * gap + [1] * (longest - gap) for gap in missing]),
            **self.model.pad(self.extractor, [clip for _, clip in items]),
        }


def check_labels(batch: Dict[str, Any], samples: Sequence[Sample], tokenizer: Any) -> float:
    """Return the share of the samples' tokens that have a label.

    Raises TrainingFailed if the labels do not decode to the targets.
    """
    labels = batch["labels"][batch["labels"] != IGNORED]
    remaining = labels.tolist()
    for sample in samples:
        count = sample.labels
        answer, remaining = remaining[:count], remaining[count:]
        decoded = tokenizer.decode(answer[: len(answer) - len(sample.end)], clean_up_tokenization_spaces=False)
        if decoded != sample.target or tuple(answer[len(answer) - len(sample.end) :]) != sample.end:
            raise TrainingFailed(
                "labels-decode", f"labels of {sample.id} decode to {decoded!r}, wanted {sample.target!r}"
            )
    if remaining:
        raise TrainingFailed("labels-decode", f"{len(remaining)} labels follow the answer of the last sample")
    share = len(labels) / sum(len(sample) for sample in samples)
    if not LEAST_LABELLED < share < MOST_LABELLED:
        raise TrainingFailed(
            "labels-masked",
            f"{share:.1%} of the positions are labelled, wanted {LEAST_LABELLED:.1%} to {MOST_LABELLED:.0%}",
        )
    return share
