"""The curves of several runs in the same charts, one colour for each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline.report.chart import COLOURS, Line
from pipeline.report.curves import MEANS, Curve
from pipeline.report.panels import (
    FEW,
    LOSS,
    MAX_MORE,
    PANELS,
    WIDE,
    Drawn,
    Panel,
    draw,
    is_evaluation,
    is_flat,
    last_part,
    train_loss,
)

NamedCurves = tuple[str, Sequence[Curve]]
"""The name of a run, and its curves."""
VALIDATION = Panel("Validation loss", LOSS.names)


def draw_overlaid(runs: Sequence[NamedCurves]) -> tuple[Drawn | None, tuple[Drawn, ...]]:
    """Return a wide chart of the training losses, and a chart for each other tag that at least two runs have.

    The wide chart is None if no run has a loss.
    """
    losses = [_line(at, name, train_loss(curves), LOSS) for at, (name, curves) in enumerate(runs)]
    found = [line for line in losses if line is not None]
    wide = draw(LOSS, found, WIDE) if found else None
    tags = {curve.tag: None for _, curves in runs for curve in curves if len(curve.finite) > 1}
    small = [drawn for tag in tags if (drawn := _overlay(tag, runs)) is not None]
    order = [panel.title for panel in (VALIDATION, *PANELS)]
    small.sort(key=lambda one: next((at for at, title in enumerate(order) if one.title.startswith(title)), len(order)))
    return wide, tuple(small[: len(PANELS) + MAX_MORE])


def _overlay(tag: str, runs: Sequence[NamedCurves]) -> Drawn | None:
    """Return the chart of one tag.

    Returns None for a training loss, a flat curve, and a tag that fewer than two runs have.
    """
    panel = _panel(tag)
    curves = [next((curve for curve in curves if curve.tag == tag), None) for _, curves in runs]
    known = [curve for curve in curves if curve is not None]
    if panel is LOSS or len(known) < 2 or is_flat(panel, known):
        return None
    lines = (_line(at, name, curve, panel) for at, ((name, _), curve) in enumerate(zip(runs, curves, strict=True)))
    return draw(panel, [line for line in lines if line is not None])


def _panel(tag: str) -> Panel:
    """Return the panel of a tag.

    If several tags can have the same panel, as with two GPUs, the title contains the tag.
    """
    last = last_part(tag)
    if last in LOSS.names:
        return VALIDATION if is_evaluation(tag) else LOSS
    known = next((panel for panel in PANELS if last in panel.names and not is_evaluation(tag)), None)
    if known is None:
        return Panel(tag, ())
    return known if tag.startswith("train/") else replace(known, title=f"{known.title} ({tag})")


def _line(at: int, name: str, curve: Curve | None, panel: Panel) -> Line | None:
    if curve is None or not curve.points:
        return None
    few = len(curve.points) <= FEW
    return Line(
        curve.in_units_of(panel.unit),
        name,
        soften=panel.soften and curve.tag != MEANS,
        dots=few,
        colour=at % COLOURS + 1,
    )
