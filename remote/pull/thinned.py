"""The scalars of a run in limited memory: every second point of a long curve is dropped, repeatedly if needed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from remote.protocol.dataclass import dataclass, field
from remote.protocol.events import Scalar

MAX_POINTS = 20_000
"""The maximum number of points of one tag in one file. Charts draw a few hundred."""
MAX_TOTAL = 400_000
MAX_SERIES = 5_000
MAX_BROKEN = 200
"""The maximum number of infinite or NaN values that are kept for each tag in a file. Charts mark these values."""


@dataclass
class _Series:
    """The points that are kept of a tag in a file: every `stride`-th point, the newest point, and the first NaN or
    infinite points.
    """

    stride: int = 1
    seen: int = 0
    points: list[Scalar] = field(default_factory=list)
    broken: list[Scalar] = field(default_factory=list)
    newest: Scalar | None = None

    def add(self, scalar: Scalar) -> None:
        if not math.isfinite(scalar.value) and len(self.broken) < MAX_BROKEN:
            self.broken.append(scalar)
        elif self.seen % self.stride == 0:
            self.points.append(scalar)
        self.seen += 1
        self.newest = scalar
        if len(self.points) > MAX_POINTS:
            self.thin()

    def thin(self) -> None:
        self.points = self.points[::2]
        self.stride *= 2

    def kept(self) -> Iterator[Scalar]:
        yield from self.points
        yield from self.broken
        last = (*self.points[-1:], *self.broken[-1:])
        if self.newest is not None and self.newest not in last:
            yield self.newest


def thinned(scalars: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """Return the scalars.

    They are thinned if a tag has more than MAX_POINTS points in a file, or if all tags together have more than
    MAX_TOTAL points. All tags after the first MAX_SERIES are left out.
    """
    series: dict[tuple[str, str], _Series] = {}
    held = 0
    for scalar in scalars:
        key = (scalar.file, scalar.tag)
        one = series.get(key)
        if one is None:
            if len(series) >= MAX_SERIES:
                continue
            one = series[key] = _Series()
            tag = scalar.tag
        else:
            tag = one.newest.tag if one.newest is not None else scalar.tag
        before = len(one.points)
        # All points of a tag share one string, to save memory.
        one.add(Scalar(tag, scalar.step, scalar.value, scalar.wall_time, scalar.file))
        held += len(one.points) - before
        if held > MAX_TOTAL:
            for each in series.values():
                each.thin()
            held = sum(len(each.points) for each in series.values())
    return tuple(point for one in series.values() for point in one.kept())
