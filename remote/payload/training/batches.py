"""The order of an epoch's samples: a pure function of their lengths, the size of an optimizer step, seed and epoch."""

from __future__ import annotations

import random
from typing import Callable, Iterator, List, Sequence

POOL = 64
GROUP = 8


class EpochOrder:
    """A sampler that yields the epoch's samples so that neighbours have similar lengths.

    `step_size` is the number of samples of an optimizer step. The order depends neither on the micro-batch nor on the
    global random state, so a resumed run continues with exactly the next samples, even if it divides its steps
    differently.
    """

    def __init__(self, choose: Callable[[int], List[int]], lengths: Sequence[int], step_size: int, seed: int) -> None:
        self.choose = choose
        self.lengths = lengths
        self.step_size = step_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch (from 0) of the next iteration."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.choose(self.epoch))

    def __iter__(self) -> Iterator[int]:
        return iter(group_by_length(self.choose(self.epoch), self.lengths, self.step_size, self.seed, self.epoch))


def group_by_length(samples: Sequence[int], lengths: Sequence[int], step_size: int, seed: int, epoch: int) -> List[int]:
    """Return the samples in optimizer steps of `step_size`, each from the longest to the shortest.

    Samples are shuffled, sorted within pools, and cut into groups of at most `GROUP` of similar length. The groups are
    shuffled and assigned to the steps. The step with the longest sample comes first, so that an out-of-memory error
    occurs early. Only the last step can be short.
    """
    rng = random.Random(f"{seed}:{epoch}")
    order = list(samples)
    rng.shuffle(order)

    def longest_first(some: Sequence[int]) -> List[int]:
        return sorted(some, key=lambda sample: -lengths[sample])

    whole = len(order) - len(order) % step_size
    order, tail = order[:whole], order[whole:]
    pool = step_size * -(-POOL // step_size)
    order = [sample for i in range(0, whole, pool) for sample in longest_first(order[i : i + pool])]
    group = max(size for size in range(1, GROUP + 1) if step_size % size == 0)
    groups = [order[i : i + group] for i in range(0, whole, group)]
    rng.shuffle(groups)
    order = [sample for one in groups for sample in one]
    steps = [longest_first(order[i : i + step_size]) for i in range(0, whole, step_size)]
    first = max(range(len(steps)), key=lambda i: lengths[steps[i][0]], default=0)
    steps = [*steps[first : first + 1], *steps[:first], *steps[first + 1 :], longest_first(tail)]
    return [sample for step in steps for sample in step]


def tokens_of_steps(orders: Sequence[Sequence[int]], lengths: Sequence[int], step_size: int) -> List[int]:
    """Return the number of tokens of each optimizer step of the run. `orders` are the samples of each epoch."""
    return [
        sum(lengths[sample] for sample in order[i : i + step_size])
        for order in orders
        for i in range(0, len(order), step_size)
    ]
