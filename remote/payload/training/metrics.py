"""Correlations, error rates and detection scores by their textbook definitions; None if undefined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import FrozenSet, List, Optional, Sequence, Tuple


def pearson(xs: Sequence[float], ys: Sequence[float]) -> Optional[float]:
    """Return Pearson's r; None for fewer than two pairs or a constant side."""
    count = len(xs)
    if count < 2:
        return None
    mean_x, mean_y = math.fsum(xs) / count, math.fsum(ys) / count
    over = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys))
    under = math.fsum((x - mean_x) ** 2 for x in xs) * math.fsum((y - mean_y) ** 2 for y in ys)
    return over / math.sqrt(under) if under > 0 else None


def spearman(xs: Sequence[float], ys: Sequence[float]) -> Optional[float]:
    """Return Spearman's rho: Pearson's r of the ranks, ties sharing their mean rank."""
    return pearson(ranks(xs), ranks(ys))


def ranks(values: Sequence[float]) -> List[float]:
    """Return the rank of each value from 1; equal values share their mean rank."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranked = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for position in range(start, end + 1):
            ranked[order[position]] = (start + end) / 2 + 1
        start = end + 1
    return ranked


def align(wanted: Sequence[str], got: Sequence[str]) -> List[Tuple[Optional[int], Optional[int]]]:
    """Return pairs of positions in a minimal edit; None on one side is a deletion or an insertion.

    Ties, traced back from the end, prefer substitution, then deletion, then insertion.
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
    """Return edits per reference token: WER for words, PER for phones. Can be above 1."""
    total = sum(len(row) for row in wanted)
    if not total:
        return None
    edits = sum(
        sum(i is None or j is None or row[i] != said[j] for i, j in align(row, said)) for row, said in zip(wanted, got)
    )
    return edits / total


@dataclass(frozen=True)
class Detection:
    """How well mispronounced phones were found; a score without anything to count is None."""

    precision: Optional[float]
    recall: Optional[float]
    f1: Optional[float]


def detection(
    expected: Sequence[Sequence[str]], said: Sequence[Sequence[str]], recognised: Sequence[Sequence[str]]
) -> Detection:
    """Mispronunciation detection over expected phones.

    A phone is mispronounced if the phone said differs from the expected one, and flagged if the recognised one does.
    Precision: flagged phones that are mispronounced; recall: mispronounced phones that are flagged. Insertions do not
    count.
    """
    hits = flagged = truths = 0
    for want, really, model in zip(expected, said, recognised):
        wrong, found = mispronounced(want, really), mispronounced(want, model)
        hits += len(wrong & found)
        flagged += len(found)
        truths += len(wrong)
    precision = hits / flagged if flagged else None
    recall = hits / truths if truths else None
    f1 = 2 * hits / (flagged + truths) if flagged + truths else None
    return Detection(precision, recall, f1)


def mispronounced(expected: Sequence[str], said: Sequence[str]) -> FrozenSet[int]:
    """Return the positions of `expected` that were said as another phone or omitted."""
    return frozenset(i for i, j in align(expected, said) if i is not None and (j is None or expected[i] != said[j]))
