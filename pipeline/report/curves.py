"""Turn scalars into curves, one per tag.

Resumed jobs are joined, each step occurs once, and long curves are thinned.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter

from remote.protocol.dataclass import dataclass
from remote.protocol.events import Scalar
from remote.protocol.loss import LARGEST, mean_losses

MAX_POINTS = 600
MEANS = "mean_loss"
"""The tag of the losses that the job recorded. Each of these losses is a mean over the newest steps."""


@dataclass(frozen=True)
class Curve:
    """The values of one tag, ordered by optimizer step.

    Each step occurs once. Values may be infinite or NaN. A value above LARGEST counts as infinite.
    """

    tag: str
    points: tuple[tuple[int, float], ...]

    @property
    def finite(self) -> tuple[tuple[int, float], ...]:
        """Return the points whose value is finite."""
        return tuple(point for point in self.points if abs(point[1]) <= LARGEST)

    @property
    def broken_steps(self) -> tuple[int, ...]:
        """Return the steps whose value is infinite or NaN."""
        return tuple(step for step, value in self.points if not abs(value) <= LARGEST)

    def in_units_of(self, unit: float) -> Curve:
        """Return the curve with every value divided by `unit`."""
        return self if unit == 1.0 else Curve(self.tag, tuple((step, value / unit) for step, value in self.points))

    @property
    def last(self) -> float:
        """Return the value at the last step."""
        return self.points[-1][1]


def gather_curves(scalars: Iterable[Scalar]) -> tuple[Curve, ...]:
    """Return a curve per tag, sorted by tag.

    If a job resumed or restarted, its points replace the points of earlier jobs at and after its first step. If several
    folders with the same tag were written at the same time, each folder gets a curve named `tag (folder)`.
    """
    by_tag: dict[str, dict[str, list[Scalar]]] = {}
    for scalar in scalars:
        folder = scalar.file.rpartition("/")[0]
        by_tag.setdefault(scalar.tag, {}).setdefault(folder, []).append(scalar)
    curves = []
    for tag, folders in sorted(by_tag.items()):
        if len(folders) == 1 or not _overlap(folders.values()):
            curves.append(_curve(tag, [scalar for written in folders.values() for scalar in written]))
        else:
            curves += [_curve(f"{tag} ({folder or '.'})", written) for folder, written in sorted(folders.items())]
    return tuple(curves)


def curve_of_means(means: Sequence[float], steps: Sequence[int], first: int, last: int) -> Curve:
    """Return the curve of `means` at `steps`.

    If the steps are unknown, the means are spread evenly over the steps after `first` up to `last`.
    """
    if means and len(steps) == len(means):
        return Curve(MEANS, tuple(zip(steps, means, strict=True)))
    known = means[: last - first]
    points = {first + round((at + 1) * (last - first) / len(known)): mean for at, mean in enumerate(known)}
    return Curve(MEANS, tuple(points.items()))


@lru_cache(maxsize=64)
def smooth(curve: Curve) -> Curve:
    """Return the moving average of the curve's finite points (window: `mean_losses`).

    Every command shows it as the loss.
    """
    return Curve(curve.tag, tuple(mean_losses(curve.finite)))


def thin(curve: Curve, limit: int = MAX_POINTS) -> Curve:
    """Return a curve of about `limit` points with the same shape: the lowest and highest point of each interval."""
    points = curve.finite
    if len(points) <= limit:
        return Curve(curve.tag, points)
    size = math.ceil(len(points) / (limit // 2))
    kept = {points[0], points[-1]}
    for start in range(0, len(points), size):
        interval = points[start : start + size]
        kept |= {min(interval, key=lambda p: p[1]), max(interval, key=lambda p: p[1])}
    return Curve(curve.tag, tuple(sorted(kept)))


def _curve(tag: str, scalars: Iterable[Scalar]) -> Curve:
    by_file: dict[str, list[Scalar]] = {}
    for scalar in scalars:
        by_file.setdefault(scalar.file, []).append(scalar)
    latest: dict[int, Scalar] = {}
    for scalar in _not_replaced(
        sorted(((_start_time(written), written) for written in by_file.values()), key=itemgetter(0))
    ):
        if scalar.step not in latest or scalar.wall_time >= latest[scalar.step].wall_time:
            latest[scalar.step] = scalar
    return Curve(tag, tuple((step, latest[step].value) for step in sorted(latest)))


def _not_replaced(files: Sequence[tuple[float, list[Scalar]]]) -> Iterator[Scalar]:
    """Yield the scalars of files, each with its start time, in this order.

    Omit a scalar if a file that started after it begins at its step or before.
    """
    starts = [start for start, _ in files]
    firsts = [min(scalar.step for scalar in written) for _, written in files]
    lowest = [*itertools.accumulate(reversed(firsts), min)][::-1]  # the lowest step of each file and of all later files
    for number, (_, written) in enumerate(files, 1):
        for scalar in written:
            later = max(number, bisect_left(starts, scalar.wall_time))
            if later == len(files) or scalar.step < lowest[later]:
                yield scalar


def _start_time(scalars: Iterable[Scalar]) -> float:
    return min(scalar.wall_time for scalar in scalars)


def _overlap(folders: Iterable[list[Scalar]]) -> bool:
    """Return True if two folders were written at the same time."""
    spans = sorted((min(s.wall_time for s in written), max(s.wall_time for s in written)) for written in folders)
    return any(begin < end for (_, end), (begin, _) in itertools.pairwise(spans))
