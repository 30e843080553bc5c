"""Micro-batches as a single row that contains the shared prefix of several prompts only once.

The other tokens of each sample follow, one sample after another. Each token keeps the position that it has in its
sample and attends only to the tokens before it in its sample, so that hidden states and the loss are those of separate
rows. Dropout of the adapter is drawn once for a shared prefix instead of once per sample.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Sequence, Tuple

import torch

from remote.payload.training.label_loss import IGNORED
from remote.payload.training.samples import Sample
from remote.protocol.dataclass import dataclass

MOST_WORK = 0.8
"""Prefixes are shared if the shared row needs at most this fraction of the work of separate rows without padding."""
PAIRS_OF_A_TOKEN = 20_000
"""The number of token pairs whose attention costs as much as the matrix products of one token.

Valid for Phi-4-multimodal and Qwen2-Audio.
"""

Path = Tuple[object, ...]


@dataclass(frozen=True)
class SharedRow:
    """The row. Each tensor has a first dimension of 1; `visible` has the shape (1, 1, query, key).

    `clips` are the indices of the samples whose audio is in the row, in the order of the row.
    """

    ids: torch.Tensor
    labels: torch.Tensor
    positions: torch.Tensor
    visible: torch.Tensor
    clips: Tuple[int, ...]


def is_shared(samples: Sequence[Sample]) -> bool:
    """Return True if the samples have enough of their prompts in common for a shared row to be faster."""
    return _work(row_length(samples)) <= MOST_WORK * sum(_work(len(sample)) for sample in samples)


def row_length(samples: Sequence[Sample]) -> int:
    """Return the number of tokens in a shared row of the samples."""
    parts = {path: stop - start for sample in samples for path, start, stop in _common_parts(sample)}
    return sum(parts.values()) + sum(len(sample) - _common_length(sample) for sample in samples)


def share_prefixes(samples: Sequence[Sample]) -> SharedRow:
    """Return the samples as one row."""
    ids: List[int] = []
    labels: List[int] = []
    positions: List[int] = []
    pieces: List[Tuple[int, int, int]] = []
    ends: Dict[Path, int] = {}
    clips: List[int] = []

    def add(tokens: Sequence[int], targets: Sequence[int], first: int, parent: int) -> None:
        pieces.append((len(ids), len(ids) + len(tokens), parent))
        ids.extend(tokens)
        labels.extend(targets)
        positions.extend(range(first, first + len(tokens)))

    for number, sample in enumerate(samples):
        parent = -1
        for path, start, stop in _common_parts(sample):
            if path not in ends:
                add(sample.prompt[start:stop], [IGNORED] * (stop - start), start, parent)
                ends[path] = len(ids) - 1
                if start == sample.audio[0]:
                    clips.append(number)
            parent = ends[path]
        common = _common_length(sample)
        own = (*sample.prompt[common:], *sample.answer, *sample.end)
        unlabelled = len(sample.prompt) - common
        add(own, [IGNORED] * unlabelled + [*sample.answer, *sample.end], common, parent)
    return SharedRow(
        torch.tensor([ids]), torch.tensor([labels]), torch.tensor([positions]), _visible(pieces), tuple(clips)
    )


def _common_parts(sample: Sample) -> Iterator[Tuple[Path, int, int]]:
    """Yield the parts of a prompt that other prompts may share: the text before the audio, the audio, the text after.

    A part is identified by everything before it and by its own content. The content of a clip is its recording, because
    all clips have the same placeholder tokens. The prompt's last token is left out, because it predicts the first token
    of this sample's answer.
    """
    first, last = sample.audio
    path: Path = ()
    for start, stop in ((0, first), (first, last), (last, _common_length(sample))):
        if stop > start:
            audio = (sample.recording.id,) if start == first else ()
            path = (*path, (sample.prompt[start:stop], *audio))
            yield path, start, stop


def _common_length(sample: Sample) -> int:
    return max(len(sample.prompt) - 1, 0)


def _visible(pieces: Sequence[Tuple[int, int, int]]) -> torch.Tensor:
    length = pieces[-1][1]
    visible = torch.zeros(length, length, dtype=torch.bool)
    for start, stop, parent in pieces:
        if parent >= 0:
            visible[start:stop] = visible[parent]
        visible[start:stop, start:stop] = torch.ones(stop - start, stop - start, dtype=torch.bool).tril()
    return visible[None, None]


def _work(tokens: int) -> float:
    return tokens * (1.0 + tokens / PAIRS_OF_A_TOKEN)
