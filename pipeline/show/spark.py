"""Sparklines: a series of values as one line of text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from remote.protocol.loss import LARGEST

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 32


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """Return one bar per value, scaled from the lowest to the highest value, or "" without a value.

    More than `width` values are averaged in equal groups. Values that are not finite, or too large for a mean, are
    omitted.
    """
    finite = [value for value in values if abs(value) <= LARGEST]
    points = group_means(finite, width)
    if not points:
        return ""
    low, high = min(points), max(points)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((point - low) * scale)] for point in points)


def group_means(values: Sequence[float], count: int) -> list[float]:
    """Return the means of at most `count` groups of consecutive values, in order."""
    if len(values) <= count:
        return list(values)
    edges = [len(values) * index // count for index in range(count + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
