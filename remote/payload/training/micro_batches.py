"""The micro-batches of each optimizer step: samples of similar length, with little padding, within the planned memory.

A smaller micro-batch has less padding, but each micro-batch reads all weights of the model once more.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import torch

from remote.payload.training.batches import EpochOrder
from remote.payload.training.collator import LABEL_POSITIONS, SAMPLES, Collator
from remote.payload.training.features import Clip
from remote.payload.training.label_loss import IGNORED
from remote.payload.training.samples import Sample, SampleSet
from remote.protocol.dataclass import dataclass
from remote.protocol.training import MemoryPlan

TOKENS_OF_A_PASS = {"cuda": 256, "cpu": 32}
"""Reading all weights once takes as long as computing this many tokens.

Peak operations per byte of memory bandwidth are 193 on a TITAN RTX and 206 on an H200; a float16 weight is two bytes
and two operations per token. A core of a CPU computes fewer operations per byte; 32 is an estimate, not measured.
"""


@dataclass(frozen=True)
class MicroBatch:
    """The indices of samples. If `has_labels` is False, the loss of the samples is 0.

    A process without samples of its own computes such a micro-batch, because all processes need the same number of
    micro-batches.
    """

    samples: Tuple[int, ...]
    has_labels: bool = True


class StepSampler:
    """A batch sampler that yields the micro-batches of one process for each optimizer step of an epoch.

    In every step, all processes have the same number of micro-batches.
    """

    def __init__(
        self,
        order: EpochOrder,
        samples: SampleSet,
        plan: MemoryPlan,
        *,
        pass_tokens: int,
        process: int = 0,
        processes: int = 1,
    ) -> None:
        self.order = order
        self.samples = samples
        self.plan = plan
        self.pass_tokens = pass_tokens
        self.process = process
        self.processes = processes

    def __len__(self) -> int:
        return math.ceil(len(self.order) / self.order.step_size)

    def __iter__(self) -> Iterator[List[MicroBatch]]:
        order, size = list(self.order), self.order.step_size
        for start in range(0, len(order), size):
            yield self.divide(order[start : start + size])

    def divide(self, step: Sequence[int]) -> List[MicroBatch]:
        """Return the micro-batches of this process for the samples of an optimizer step, which begin with the longest.

        The processes get samples of similar lengths. Without a limit of tokens, a micro-batch has a fixed number of
        samples.
        """
        size, process = self.plan.micro_batch, self.process
        if not self.plan.positions:
            turn = size * self.processes
            turns = (step[start : start + turn] for start in range(0, len(step), turn))
            shares = [one[process * size : (process + 1) * size] for one in turns]
        else:
            rows = [step[start : start + self.processes] for start in range(0, len(step), self.processes)]
            shares = [
                [row[process] for row in rows[start:stop] if process < len(row)] for start, stop in self._cuts(rows)
            ]
        return [MicroBatch(tuple(share)) if share else MicroBatch((step[-1],), False) for share in shares]

    def _cuts(self, rows: Sequence[Sequence[int]]) -> List[Tuple[int, int]]:
        samples = self.samples.samples
        lengths = [len(samples[row[0]]) for row in rows]
        labels = [max(samples[i].labels for i in row) for row in rows]
        return cut_by_tokens(lengths, labels, self.plan.positions, self.plan.labels, self.pass_tokens)


def cut_by_tokens(
    lengths: Sequence[int], labels: Sequence[int], most_positions: int, most_labels: int, pass_tokens: int
) -> List[Tuple[int, int]]:
    """Return start and stop of each micro-batch of samples with these lengths, the longest first.

    The division minimises the cost: the padded tokens of all micro-batches, plus `pass_tokens` for each micro-batch. A
    micro-batch of several samples has at most `most_positions` padded tokens and `most_labels` labels.
    """
    costs, starts = [0], [0]
    for stop in range(1, len(lengths) + 1):
        best, found, counted = -1, stop - 1, 0
        for start in range(stop - 1, -1, -1):
            counted += labels[start]
            positions = (stop - start) * lengths[start]
            if stop - start > 1 and (positions > most_positions or counted > most_labels):
                break
            cost = costs[start] + positions + pass_tokens
            if best < 0 or cost < best:
                best, found = cost, start
        costs.append(best)
        starts.append(found)
    cuts: List[Tuple[int, int]] = []
    stop = len(lengths)
    while stop:
        cuts.append((starts[stop], stop))
        stop = starts[stop]
    return cuts[::-1]


@dataclass(frozen=True)
class StepSamples:
    """A data set whose batches are optimizer steps: the samples of each micro-batch."""

    samples: SampleSet

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, batch: MicroBatch) -> Tuple[MicroBatch, List[Tuple[Sample, Clip]]]:
        return batch, [self.samples[i] for i in batch.samples]


@dataclass(frozen=True)
class StepCollator:
    """Collates the micro-batches of an optimizer step."""

    collator: Collator

    def __call__(
        self, micro_batches: Sequence[Tuple[MicroBatch, Sequence[Tuple[Sample, Clip]]]]
    ) -> List[Dict[str, Any]]:
        collated = []
        for batch, items in micro_batches:
            inputs = self.collator(items)
            if not batch.has_labels:
                positions = torch.zeros(0, dtype=torch.long)
                inputs = {
                    **inputs,
                    "labels": torch.full_like(inputs["labels"], IGNORED),
                    LABEL_POSITIONS: positions,
                    SAMPLES: [],
                }
            collated.append(inputs)
        return collated
