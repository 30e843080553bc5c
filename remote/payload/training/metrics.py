"""Correlations and edit distances by their textbook definitions. Undefined values are None."""

from __future__ import annotations

import math
from typing import FrozenSet, List, Optional, Sequence, Tuple


def pearson(xs: Sequence[float], ys: Sequence[float]) -> Optional[float]:
    """Return Pearson's r, or None if there are fewer than two pairs or if all `xs` or all `ys` are equal."""
    count = len(xs)
    if count < 2:
        return None
    mean_x, mean_y = math.fsum(xs) / count, math.fsum(ys) / count
    over = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys))
    under = math.fsum((x - mean_x) ** 2 for x in xs) * math.fsum((y - mean_y) ** 2 for y in ys)
    return over / math.sqrt(under) if under > 0 else None


def spearman(xs: Sequence[float], ys: Sequence[float]) -> Optional[float]:
    """Return Spearman's rho: Pearson's r of the ranks, where ties share their mean rank.

    Return None in the same cases as `pearson`.
    """
    return pearson(ranks(xs), ranks(ys))


def ranks(values: Sequence[float]) -> List[float]:
    """Return the rank of each value, from 1. Equal values share their mean rank."""
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


def align(reference: Sequence[str], answer: Sequence[str]) -> List[Tuple[Optional[int], Optional[int]]]:
    """Return pairs of positions in a minimal edit. None in a pair means a deletion or an insertion.

    The edits are chosen from the end to the start. Of edits with equal cost, substitution is preferred, then deletion.
    """
    cost = [[i + j if i == 0 or j == 0 else 0 for j in range(len(answer) + 1)] for i in range(len(reference) + 1)]
    for i in range(1, len(reference) + 1):
        for j in range(1, len(answer) + 1):
            same = cost[i - 1][j - 1] + (reference[i - 1] != answer[j - 1])
            cost[i][j] = min(same, cost[i - 1][j] + 1, cost[i][j - 1] + 1)
    pairs: List[Tuple[Optional[int], Optional[int]]] = []
    i, j = len(reference), len(answer)
    while i or j:
        if i and j and cost[i][j] == cost[i - 1][j - 1] + (reference[i - 1] != answer[j - 1]):
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif i and cost[i][j] == cost[i - 1][j] + 1:
            i -= 1
            pairs.append((i, None))
        else:
            j -= 1
            pairs.append((None, j))
    return pairs[::-1]


def edits(reference: Sequence[str], answer: Sequence[str]) -> int:
    """Return the number of substitutions, deletions and insertions in a minimal edit."""
    return sum(i is None or j is None or reference[i] != answer[j] for i, j in align(reference, answer))


def mispronounced(expected: Sequence[str], pronounced: Sequence[str]) -> FrozenSet[int]:
    """Return the positions of `expected` that were pronounced as another phone or omitted."""
    return frozenset(
        i for i, j in align(expected, pronounced) if i is not None and (j is None or expected[i] != pronounced[j])
    )
