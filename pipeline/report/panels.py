"""Group known curves into charts with an order and units. Every other curve gets a separate chart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.report.chart import COLOURS, Frame, Line, Scale, render_chart
from pipeline.report.chart_data import chart_data
from pipeline.report.curves import MEANS, Curve
from pipeline.report.formatting import text
from remote.protocol.dataclass import dataclass

WIDE = Frame(width=980, height=270, left=56, right=92, x_ticks=10, y_ticks=5)
MAX_MORE = 12
LOG_FROM = 50.0
FEW = 12
"""A curve with at most this many points has a dot at each of them."""


@dataclass(frozen=True)
class Panel:
    """A chart of the tags whose last part is one of `names`."""

    title: str
    names: tuple[str, ...]
    scale: Scale = Scale.LINEAR
    suffix: str = ""
    soften: bool = False
    unit: float = 1.0


LOSS = Panel("Loss", ("loss", "eval_loss", "train_loss", "val_loss", "loss_total", MEANS), soften=True)
PANELS = (
    Panel("Gradient norm", ("grad_norm", "gradient_norm"), soften=True),
    Panel("Loss scale", ("loss_scale", "scale", "grad_scale"), Scale.POWERS),
    Panel("Learning rate", ("learning_rate", "lr")),
    Panel("Skipped steps", ("skipped_steps", "skipped")),
    Panel("Tokens per second", ("tokens_per_second", "tokens_per_s"), soften=True),
    Panel("Peak memory", ("peak_memory", "peak_bytes"), suffix="\u00a0GiB", unit=2.0**30),
    Panel("GPU utilization", ("gpu_utilization",), suffix="\u00a0%"),
    Panel("GPU memory", ("gpu_memory_bytes",), suffix="\u00a0GiB", unit=2.0**30),
    Panel("GPU temperature", ("gpu_temperature",), suffix="\u00a0°C"),
)
MEANS_NOTE = "no event file has a curve named loss: the mean over the newest steps, as status shows it"
BOOKKEEPING = ("epoch", "runtime", "samples_per_second", "steps_per_second", "total_flos")
EVALUATION = ("eval/", "test/", "validation/")


@dataclass(frozen=True)
class Drawn:
    """A chart with its title and a note on its scale.

    `data` is the JSON from which the page's script draws the chart, or "" if only `svg` is shown. `has_means` is True
    if a line has a mean beside it.
    """

    title: str
    svg: str
    note: str = ""
    data: str = ""
    has_means: bool = False


def draw_loss(curves: Iterable[Curve]) -> Drawn | None:
    """Render training and evaluation loss in one wide chart. Return None without losses."""
    found = [curve for curve in curves if last_part(curve.tag) in LOSS.names]
    if any(len(curve.points) > 1 and not is_evaluation(curve.tag) for curve in found):  # skip a Trainer's summary
        found = [curve for curve in found if len(curve.points) > 1 or is_evaluation(curve.tag)]
    return draw(LOSS, _lines(LOSS, found), WIDE) if found else None


def draw_panels(curves: Iterable[Curve]) -> tuple[Drawn, ...]:
    """Render the known curves in order, then up to MAX_MORE other curves with more than one point."""
    left = [curve for curve in curves if last_part(curve.tag) not in LOSS.names]
    drawn = []
    for panel in PANELS:
        found = [curve for curve in left if last_part(curve.tag) in panel.names and not is_evaluation(curve.tag)]
        left = [curve for curve in left if curve not in found]
        if found and not is_flat(panel, found):
            drawn.append(draw(panel, _lines(panel, found)))
    more = list(filter(_has_chart, left))
    drawn += [draw(panel, _lines(panel, [curve])) for curve in more[:MAX_MORE] for panel in (Panel(curve.tag, ()),)]
    return tuple(drawn)


def last_part(tag: str) -> str:
    """Return `loss` for `train/loss` and for `train/loss (folder)`."""
    return tag.partition(" (")[0].rpartition("/")[2].lower()


def _has_chart(curve: Curve) -> bool:
    return len(curve.points) > 1 and not is_bookkeeping(curve.tag)


def is_bookkeeping(tag: str) -> bool:
    """Return True if the tag names a value that a Trainer logs about its own speed or position."""
    return last_part(tag).removeprefix("eval_").removeprefix("train_") in BOOKKEEPING


def is_evaluation(tag: str) -> bool:
    """Return True if the tag names a metric of an evaluation."""
    return tag.startswith(EVALUATION) or last_part(tag).startswith("eval_")


def train_loss(curves: Iterable[Curve]) -> Curve | None:
    """Return the longest training loss curve, or None if there is none."""
    found = [curve for curve in curves if last_part(curve.tag) in LOSS.names and not is_evaluation(curve.tag)]
    return max(found, key=lambda curve: len(curve.finite), default=None)


def is_flat(panel: Panel, curves: list[Curve]) -> bool:
    """Return True if the number of skipped steps is constant, so that the page shows a number instead of a chart."""
    return panel.title == "Skipped steps" and all(len({value for _, value in curve.points}) == 1 for curve in curves)


def _lines(panel: Panel, curves: list[Curve]) -> list[Line]:
    """Return at most COLOURS lines for the curves of a chart. The lines have names if there are several curves."""
    ordered = sorted(curves, key=lambda curve: (is_evaluation(curve.tag), curve.tag))
    return [
        Line(
            curve.in_units_of(panel.unit),
            _name(curve, curves),
            soften=panel.soften and not is_evaluation(curve.tag) and curve.tag != MEANS,
            dots=len(curve.points) <= FEW,
        )
        for curve in ordered[:COLOURS]
    ]


def draw(panel: Panel, lines: Sequence[Line], frame: Frame | None = None) -> Drawn:
    """Return the chart of a panel. A wide chart is logarithmic if its values span more than a factor of LOG_FROM."""
    scale = panel.scale
    values = [value for line in lines for _, value in line.curve.finite]
    if scale is Scale.LINEAR and frame is WIDE and values and min(values) > 0 and max(values) / min(values) > LOG_FROM:
        scale = Scale.LOG
    svg = render_chart(lines, title=panel.title, frame=frame, scale=scale, suffix=panel.suffix)
    notes = [MEANS_NOTE] * any(line.curve.tag == MEANS for line in lines) + ["logarithmic"] * (scale is Scale.LOG)
    has_means = any(line.soften for line in lines)
    return Drawn(text(panel.title), svg, ", ".join(notes), chart_data(lines, scale, panel.suffix), has_means)


def _name(curve: Curve, curves: list[Curve]) -> str:
    """Return a label that distinguishes this line from the other lines of its chart, or "" for a single line."""
    if len(curves) == 1:
        return ""
    for name in (_kind, _measure, _folder):
        curves = [other for other in curves if name(other) == name(curve)]
        if len(curves) == 1:
            break
    return name(curve)


def _kind(curve: Curve) -> str:
    return "eval" if is_evaluation(curve.tag) else curve.tag.partition(" (")[0].partition("/")[0][:8]


def _measure(curve: Curve) -> str:
    return last_part(curve.tag)[:10]


def _folder(curve: Curve) -> str:
    return curve.tag.partition(" (")[2].rstrip(")")[-10:]
