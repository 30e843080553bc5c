"""A curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 32


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """The values as bars from lowest to highest, means of equal shares where there are more than `width`."""
    finite = [value for value in values if math.isfinite(value)]
    points = shares(finite, width)
    if not points:
        return ""
    low, high = min(points), max(points)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((point - low) * scale)] for point in points)


def shares(values: Sequence[float], count: int) -> list[float]:
    """At most `count` means of consecutive values, in order."""
    if len(values) <= count:
        return list(values)
    edges = [len(values) * index // count for index in range(count + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
