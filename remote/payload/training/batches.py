"""Group the samples of an epoch into batches of similar length: a pure function of lengths, seed and epoch."""

from __future__ import annotations

import random
from typing import Callable, Iterator, List, Sequence

POOL = 8


class EpochOrder:
    """A sampler that yields the epoch's samples so that batches hold samples of similar length.

    It does not use global random state, so a resumed run continues with exactly the next samples.
    """

    def __init__(self, choose: Callable[[int], List[int]], lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.choose = choose
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, from 0, of the next iteration."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.choose(self.epoch))

    def __iter__(self) -> Iterator[int]:
        return iter(group_by_length(self.choose(self.epoch), self.lengths, self.batch_size, self.seed, self.epoch))


def group_by_length(
    samples: Sequence[int], lengths: Sequence[int], batch_size: int, seed: int, epoch: int
) -> List[int]:
    """Return samples in batches of similar length, in random order; the longest first, so that memory runs out early.

    Samples are shuffled, sorted within pools of `POOL` batches, cut into batches, and the batches shuffled. Only the
    last batch can be short.
    """
    rng = random.Random(f"{seed}:{epoch}")
    order = list(samples)
    rng.shuffle(order)
    tail = order[len(order) - len(order) % batch_size :]
    whole = order[: len(order) - len(tail)]
    batches = []
    for start in range(0, len(whole), POOL * batch_size):
        pool = sorted(whole[start : start + POOL * batch_size], key=lambda sample: -lengths[sample])
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    rng.shuffle(batches)
    first = max(range(len(batches)), key=lambda i: max(lengths[sample] for sample in batches[i]), default=0)
    batches = [*batches[first : first + 1], *batches[:first], *batches[first + 1 :], tail]
    return [sample for batch in batches for sample in batch]
