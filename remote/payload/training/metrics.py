"""Correlations, error rates and detection scores, by their textbook definitions; None where one is not defined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import FrozenSet, List, Optional, Sequence, Tuple


def pearson(xs: Sequence[float], ys: Sequence[float]) -> Optional[float]:
    """Pearson's r; None for fewer than two pairs or where one side is constant."""
    count = len(xs)
    if count < 2:
        return None
    mean_x, mean_y = math.fsum(xs) / count, math.fsum(ys) / count
    over = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys))
    under = math.fsum((x - mean_x) ** 2 for x in xs) * math.fsum((y - mean_y) ** 2 for y in ys)
    return over / math.sqrt(under) if under > 0 else None


def spearman(xs: Sequence[float], ys: Sequence[float]) -> Optional[float]:
    """Spearman's rho: Pearson's r of the ranks, ties sharing their mean rank."""
    return pearson(ranks(xs), ranks(ys))


def ranks(values: Sequence[float]) -> List[float]:
    """The rank of each value from 1, equal values sharing the mean of theirs."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranked = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in range(start, end + 1):
            ranked[order[place]] = (start + end) / 2 + 1
        start = end + 1
    return ranked


def align(wanted: Sequence[str], got: Sequence[str]) -> List[Tuple[Optional[int], Optional[int]]]:
    """Pairs of positions by a cheapest edit; None on one side is a deletion or an insertion.

    Of equally cheap edits a substitution is taken before a deletion before an insertion, from the end.
    """
    cost = [[i + j if i == 0 or j == 0 else 0 for j in range(len(got) + 1)] for i in range(len(wanted) + 1)]
    for i in range(1, len(wanted) + 1):
        for j in range(1, len(got) + 1):
            same = cost[i - 1][j - 1] + (wanted[i - 1] != got[j - 1])
            cost[i][j] = min(same, cost[i - 1][j] + 1, cost[i][j - 1] + 1)
    pairs: List[Tuple[Optional[int], Optional[int]]] = []
    i, j = len(wanted), len(got)
    while i or j:
        if i and j and cost[i][j] == cost[i - 1][j - 1] + (wanted[i - 1] != got[j - 1]):
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif i and cost[i][j] == cost[i - 1][j] + 1:
            i -= 1
            pairs.append((i, None))
        else:
            j -= 1
            pairs.append((None, j))
    return pairs[::-1]


def error_rate(wanted: Sequence[Sequence[str]], got: Sequence[Sequence[str]]) -> Optional[float]:
    """Edits over all tokens wanted: WER for words, PER for phones. Can be above 1."""
    total = sum(len(row) for row in wanted)
    if not total:
        return None
    edits = sum(
        sum(i is None or j is None or row[i] != said[j] for i, j in align(row, said)) for row, said in zip(wanted, got)
    )
    return edits / total


@dataclass(frozen=True)
class Detection:
    """How well mispronounced phones were found; each score is None where nothing was there to count."""

    precision: Optional[float]
    recall: Optional[float]
    f1: Optional[float]


def detection(
    expected: Sequence[Sequence[str]], said: Sequence[Sequence[str]], heard: Sequence[Sequence[str]]
) -> Detection:
    """Mispronunciation detection over expected phones.

    A phone is mispronounced where what was said differs from what was expected, and found where what the model heard
    differs. Precision: found ones that are; recall: those that are found. Extra phones count as no expected phone's.
    """
    hits = claims = truths = 0
    for want, really, model in zip(expected, said, heard):
        wrong, claimed = mispronounced(want, really), mispronounced(want, model)
        hits += len(wrong & claimed)
        claims += len(claimed)
        truths += len(wrong)
    precision = hits / claims if claims else None
    recall = hits / truths if truths else None
    f1 = 2 * hits / (claims + truths) if claims + truths else None
    return Detection(precision, recall, f1)


def mispronounced(expected: Sequence[str], said: Sequence[str]) -> FrozenSet[int]:
    """The positions of `expected` that were said as another phone or not at all."""
    return frozenset(i for i, j in align(expected, said) if i is not None and (j is None or expected[i] != said[j]))
