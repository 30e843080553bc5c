"""Which samples an epoch trains on, and in which batches: a pure function of lengths, seed and epoch."""

from __future__ import annotations

import random
from typing import Callable, Iterator, List, Sequence

POOL = 8


class EpochOrder:
    """Yields the epoch's samples so that batches hold samples of similar length.

    Nothing is drawn from global random state, so a resumed run goes on with the very samples that were due.
    """

    def __init__(self, choose: Callable[[int], List[int]], lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.choose = choose
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch's (from 0)."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.choose(self.epoch))

    def __iter__(self) -> Iterator[int]:
        return iter(group_by_length(self.choose(self.epoch), self.lengths, self.batch_size, self.seed, self.epoch))


def group_by_length(
    samples: Sequence[int], lengths: Sequence[int], batch_size: int, seed: int, epoch: int
) -> List[int]:
    """The samples in batches of similar length, in random order; the longest batch first, so that memory fails early.

    Samples are shuffled, sorted within pools of `POOL` batches, cut into batches, and the batches shuffled. Only the
    last batch can be short.
    """
    chance = random.Random(f"{seed}:{epoch}")
    order = list(samples)
    chance.shuffle(order)
    tail = order[len(order) - len(order) % batch_size :]
    whole = order[: len(order) - len(tail)]
    batches = []
    for start in range(0, len(whole), POOL * batch_size):
        pool = sorted(whole[start : start + POOL * batch_size], key=lambda sample: -lengths[sample])
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    chance.shuffle(batches)
    first = max(range(len(batches)), key=lambda i: max(lengths[sample] for sample in batches[i]), default=0)
    batches = [*batches[first : first + 1], *batches[:first], *batches[first + 1 :], tail]
    return [sample for batch in batches for sample in batch]
