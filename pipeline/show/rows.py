"""Rows of scalars: the step, then a label and a value in readable units for each scalar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from pipeline.show.plain import plain
from remote.protocol.events import Scalar
from remote.protocol.quantities import duration, memory, size

STEP_WIDTH = 8
VALUE_WIDTH = 9
GAP = "  "
LOSS = re.compile(r"(^|[/_])loss($|/)", re.IGNORECASE)
TRAINING = "train/"
SECONDS = ("seconds", "_s", "_sec", "_secs", "runtime")


def rows_of(scalars: Sequence[Scalar]) -> Iterator[list[Scalar]]:
    """Group neighbouring scalars of the same step."""
    yield from (list(group) for _, group in groupby(scalars, key=lambda scalar: scalar.step))


def render_row(row: Sequence[Scalar], width: int | None) -> str:
    """Return one line with the scalars in columns.

    Scalars that do not fit into `width` are only counted. If `width` is None, all scalars are shown.
    """
    cells = list(_cells(row))
    line = f"{row[0].step:>{STEP_WIDTH}}"
    for shown, (label, value) in enumerate(cells):
        cell = f"{label} {value}" if width is None else f"{label} {value:<{VALUE_WIDTH}}"
        rest = len(cells) - shown
        room = len(GAP) + len(cell.rstrip() if rest == 1 else f"{cell}{GAP}+{rest - 1}")
        if shown and width is not None and len(line) + room > width:
            return f"{line.rstrip()}{GAP}+{rest}\n"
        line += GAP + cell
    return f"{line.rstrip()}\n"


def readable(tag: str, value: float) -> str:
    """Return the value in the unit that the tag names (bytes, memory, seconds, a rate), else with four digits."""
    name = tag.lower()
    if name.endswith("bytes"):
        return size(value)
    if name.endswith("memory"):
        return memory(value)
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


def _cells(row: Sequence[Scalar]) -> Iterator[tuple[str, str]]:
    """Yield a label and a value for each tag: losses first, epochs last.

    The label is the tag without `train/`. If a tag occurs more than once, its last value is used.
    """
    values = {scalar.tag: scalar.value for scalar in row}
    for tag in sorted(values, key=_place):
        short = tag.removeprefix(TRAINING)
        yield (
            plain((tag if short != tag and short in values else short).replace("_per_second", "")),
            readable(tag, values[tag]),
        )


def _place(tag: str) -> int:
    """Return the sort key of a tag: 0 for the training loss, 1 for other losses, 2 for other tags, 3 for the epoch."""
    if LOSS.search(tag):
        return 1 if "eval" in tag or "val" in tag else 0
    return 3 if tag.endswith("epoch") else 2
