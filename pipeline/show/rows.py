"""Rows of scalars: the step, then a label and a value in readable units for each scalar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from remote.protocol.events import Scalar
from remote.protocol.quantities import duration, size

STEP_WIDTH = 8
GAP = "  "
SECONDS = ("seconds", "_s", "_sec", "_secs", "runtime")


def rows_of(scalars: Sequence[Scalar]) -> Iterator[list[Scalar]]:
    """Group neighbouring scalars of the same step."""
    yield from (list(group) for _, group in groupby(scalars, key=lambda scalar: scalar.step))


def render_row(row: Sequence[Scalar], width: int | None) -> str:
    """Return the lines of one row; a label and its value stay on one line. `width` None: everything on one line."""
    lines = [f"{row[0].step:>{STEP_WIDTH}}"]
    for cell in _cells(row):
        if width is not None and len(lines[-1]) + len(GAP) + len(cell) > width and lines[-1].strip():
            lines.append(" " * STEP_WIDTH)
        lines[-1] += GAP + cell
    return "".join(f"{line}\n" for line in lines)


def readable(tag: str, value: float) -> str:
    """Return the value in the unit that its tag names: bytes, seconds, a rate; else with four digits."""
    name = tag.lower()
    if name.endswith("bytes"):
        return size(value)
    if "per_second" in name or name.endswith("/s"):
        return f"{_with_prefix(value)}/s"
    if name.endswith(SECONDS) and value >= 0:
        return duration(value)
    return f"{value:.4g}"


def _with_prefix(value: float) -> str:
    for limit, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{prefix}"
    return f"{value:.3g}"


def _cells(row: Sequence[Scalar]) -> Iterator[str]:
    names = [scalar.tag.rpartition("/")[2] for scalar in row]
    for scalar, name in zip(row, names, strict=True):
        label = name if names.count(name) == 1 else scalar.tag
        yield f"{label.replace('_per_second', '')} {readable(scalar.tag, scalar.value)}"
