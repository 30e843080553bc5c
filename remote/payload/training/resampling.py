"""Bootstrap intervals.

Metrics of many resamples are computed at once, as sums weighted by how often each row was drawn.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from remote.protocol.evaluation import INTERVAL

LEAST_DEFINED = 0.5
"""The smallest share of resamples in which a metric must be defined for an interval."""


def draw_counts(groups: Sequence[str], resamples: int, seed: int) -> Any:
    """Return how often each row is drawn, as float64 (resamples, rows). The rows of a group are drawn together.

    Utterances of one speaker are not independent, so speakers are drawn, not utterances.
    """
    numbers: Dict[str, int] = {}
    members = np.array([numbers.setdefault(group, len(numbers)) for group in groups], dtype=np.intp)
    if not len(members):
        return np.zeros((resamples, 0))
    even = np.full(len(numbers), 1.0 / len(numbers))
    drawn = np.random.default_rng(seed).multinomial(len(numbers), even, size=resamples)
    return drawn.astype(np.float64)[:, members]


def pearson_of(xs: Any, ys: Any, counts: Any) -> Any:
    """Return Pearson's r of each resample, NaN if all values of one side are equal.

    `xs` and `ys`: (rows) or (resamples, rows).
    """
    total = counts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        dx = xs - (counts * xs).sum(axis=1, keepdims=True) / total
        dy = ys - (counts * ys).sum(axis=1, keepdims=True) / total
        under = (counts * dx * dx).sum(axis=1) * (counts * dy * dy).sum(axis=1)
        made: Any = (counts * dx * dy).sum(axis=1) / np.sqrt(under)
    return np.where(_varies(xs, counts) & _varies(ys, counts), made, np.nan)


def _varies(values: Any, counts: Any) -> Any:
    """Return for each resample whether its values differ.

    Because of rounding, the variance of equal values may be above 0.
    """
    drawn = counts > 0
    least = np.where(drawn, values, np.inf).min(axis=1, initial=np.inf)
    most = np.where(drawn, values, -np.inf).max(axis=1, initial=-np.inf)
    return most > least


def spearman_of(xs: Any, ys: Any, counts: Any) -> Any:
    """Return Spearman's rho of each resample, NaN if all values of one side are equal."""
    return pearson_of(_ranks_of(xs, counts), _ranks_of(ys, counts), counts)


def _ranks_of(values: Any, counts: Any) -> Any:
    """Return the mean rank of each row in each resample. A row that is drawn twice occupies two ranks."""
    _, inverse = np.unique(values, return_inverse=True)
    distinct = int(inverse.max()) + 1 if len(inverse) else 0
    of_value = np.zeros((len(counts), distinct))
    for row, value in enumerate(inverse):
        of_value[:, value] += counts[:, row]
    ranks: Any = np.cumsum(of_value, axis=1) - of_value + (of_value + 1) / 2
    return ranks[:, inverse]


def ratio_of(over: Any, under: Any, counts: Any) -> Any:
    """Return sum(over) / sum(under) of each resample, NaN if the denominator is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        made: Any = (counts @ over) / (counts @ under)
    return np.where(counts @ under > 0, made, np.nan)


def interval(values: Any) -> Tuple[Optional[float], Optional[float]]:
    """Return the percentile interval of the metric over the resamples.

    Return (None, None) if the metric is undefined in too many resamples.
    """
    defined = values[np.isfinite(values)]
    if not len(values) or len(defined) < LEAST_DEFINED * len(values):
        return None, None
    tail = 100 * (1 - INTERVAL) / 2
    low, high = np.percentile(defined, [tail, 100 - tail])
    return float(low), float(high)


def as_row(values: Sequence[float]) -> Any:
    """Return the values as float64."""
    column: List[float] = list(values)
    return np.array(column, dtype=np.float64)
