"""Render curves as inline SVG, with round axis marks and the last value at the end of each line."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum

from pipeline.report.curves import Curve, smooth, thin
from pipeline.report.formatting import number, text
from remote.protocol.dataclass import dataclass

COLOURS = 6
PIXELS_A_LETTER = 6
SMALLEST = 1e-100
"""On a logarithmic axis, smaller values are drawn as this value."""


class Scale(Enum):
    """The scale of the y axis. POWERS is a logarithmic axis with base 2, whose curves are drawn as steps."""

    LINEAR = "linear"
    LOG = "log"
    POWERS = "powers"


@dataclass(frozen=True)
class Frame:
    """The size and margins of a chart in pixels, and its number of axis marks."""

    width: int = 320
    height: int = 170
    left: int = 46
    right: int = 54
    top: int = 12
    bottom: int = 24
    x_ticks: int = 4
    y_ticks: int = 4


@dataclass(frozen=True)
class Line:
    """A curve and its label.

    With `soften`, the curve is faint, and its mean is drawn on top. With `colour` 0, the curve's position in the chart
    determines the colour.
    """

    curve: Curve
    name: str = ""
    soften: bool = False
    dots: bool = False
    colour: int = 0


def render_chart(
    lines: Sequence[Line],
    *,
    title: str,
    frame: Frame | None = None,
    scale: Scale = Scale.LINEAR,
    suffix: str = "",
) -> str:
    """Return an SVG element, or "" if there are no points.

    Steps with infinite or NaN values are marked at the bottom.
    """
    frame = frame or Frame()

    def show(value: float) -> str:
        return number(value) + suffix

    values = [value for line in lines for _, value in line.curve.finite]
    steps = [step for line in lines for step, _ in line.curve.points]
    if not steps:
        return ""
    marks, (low, high) = judge_axis(values or [0.0], scale, frame.y_ticks)
    labels = _labels([mark for mark in marks if low <= mark <= high], scale, suffix)
    frame = _with_room(frame, list(labels.values()))
    plot = Plot(frame, (min(steps), max(steps)), (low, high), scale)
    body = [
        *(_y_mark(plot, mark, label) for mark, label in labels.items()),
        *(_x_mark(plot, mark) for mark in step_marks(min(steps), max(steps), frame.x_ticks)),
        *(part for index, line in enumerate(lines) for part in _draw(plot, line, colour_of(line, index))),
        *_end_labels(plot, lines, show),
    ]
    return (
        f'<svg class="chart" viewBox="0 0 {frame.width} {frame.height}" role="img" aria-label="{text(title)}">'
        f"{''.join(body)}</svg>"
    )


def colour_of(line: Line, index: int) -> int:
    """Return the number of a line's colour in the style sheet. `index` is the line's position in the chart."""
    return line.colour or index % COLOURS + 1


@dataclass(frozen=True)
class Plot:
    """Converts steps and values to pixels."""

    frame: Frame
    steps: tuple[int, int]
    values: tuple[float, float]
    scale: Scale

    def x(self, step: float) -> float:
        """Return the distance from the left edge in pixels."""
        first, last = self.steps
        share = (step - first) / (last - first) if last > first else 0.5
        return self.frame.left + share * (self.frame.width - self.frame.left - self.frame.right)

    def y(self, value: float) -> float:
        """Return the distance from the upper edge in pixels."""
        low, high = (_lift(edge, self.scale) for edge in self.values)
        share = (_lift(value, self.scale) - low) / (high - low) if high > low else 0.5
        return self.frame.height - self.frame.bottom - share * (self.frame.height - self.frame.top - self.frame.bottom)


def judge_axis(values: Sequence[float], scale: Scale, ticks: int) -> tuple[list[float], tuple[float, float]]:
    """Return round marks for an axis, and the range of the axis. The axis is linear unless all values are positive."""
    low, high = min(values), max(values)
    if scale is not Scale.LINEAR and low > 0:
        low, high = max(low, SMALLEST), max(high, SMALLEST)
        base = 2.0 if scale is Scale.POWERS else 10.0
        first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
        last = max(last, first + 1)
        every = max(1, math.ceil((last - first) / ticks))
        return [base**power for power in range(first, last + 1, every)], (base**first, base**last)
    if high - low <= max(abs(high), abs(low)) * 1e-9 + SMALLEST:
        pad = abs(high) * 0.5 if abs(high) > SMALLEST else 1.0
        low, high = low - pad, high + pad
    step = round_step((high - low) / ticks)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)], (first * step, last * step)


def _labels(marks: Sequence[float], scale: Scale, suffix: str) -> dict[float, str]:
    shown = even_marks(marks) if scale is Scale.LINEAR else number
    return {mark: shown(mark) + suffix for mark in marks}


def even_marks(marks: Sequence[float]) -> Callable[[float], str]:
    """Return the function that formats the marks of a linear axis, all with the decimals that their distance needs."""
    step = marks[1] - marks[0] if len(marks) > 1 else 0.0
    if not 1e-3 <= step < 1 or max(map(abs, marks)) >= 1e5:
        return number
    decimals = -math.floor(math.log10(step) + 1e-9)
    return lambda mark: f"{mark:.{decimals}f}".replace("-", "−")


def step_marks(first: int, last: int, ticks: int) -> list[int]:
    """Return round steps within the range: two or more, unless the range has one step."""
    step = max(1, int(round_step((last - first) / ticks))) if last > first else 1
    marks = list(range(-(-first // step) * step, last + 1, step))
    return marks if len(marks) > 1 or step == 1 else step_marks(first, last, 2 * ticks)


def round_step(rough: float) -> float:
    """Return the smallest value of at least `rough` that is 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * 0.999)


def _with_room(frame: Frame, labels: Sequence[str]) -> Frame:
    """Widen the left margin to fit the longest label."""
    longest = max((len(label) for label in labels), default=0)
    return replace(frame, left=max(frame.left, 12 + longest * PIXELS_A_LETTER))


def _lift(value: float, scale: Scale) -> float:
    return math.log(max(value, SMALLEST)) if scale is not Scale.LINEAR and value > 0 else value


def _y_mark(plot: Plot, mark: float, label: str) -> str:
    y, frame = plot.y(mark), plot.frame
    return (
        f'<line class="grid" x1="{frame.left}" x2="{frame.width - frame.right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="mark" x="{frame.left - 7}" y="{y + 3.5:.1f}" text-anchor="end">{text(label)}</text>'
    )


def _x_mark(plot: Plot, mark: int) -> str:
    foot = plot.frame.height - plot.frame.bottom
    return f'<text class="mark" x="{plot.x(mark):.1f}" y="{foot + 16}" text-anchor="middle">{text(number(mark))}</text>'


def _draw(plot: Plot, line: Line, colour: int) -> list[str]:
    shown = thin(line.curve)
    smoothed = thin(smooth(line.curve)) if line.soften else shown
    parts = []
    if smoothed.points != shown.points:
        parts.append(f'<path class="line raw c{colour}" d="{_path(plot, shown.points)}"/>')
    if len(smoothed.points) > 1:
        parts.append(f'<path class="line c{colour}" d="{_path(plot, smoothed.points)}"/>')
    if line.dots or len(shown.points) == 1:
        parts += [_dot(plot, line, point, colour) for point in shown.points]
    foot = plot.frame.height - plot.frame.bottom
    parts += [
        f'<path class="broken" d="M{plot.x(step):.1f} {foot}v-9"><title>step {step}: not a finite number</title></path>'
        for step in line.curve.broken_steps[:200]
    ]
    return parts


def _path(plot: Plot, points: Sequence[tuple[int, float]]) -> str:
    (step, value), *rest = points
    path = [f"M{plot.x(step):.1f} {plot.y(value):.1f}"]
    for step, value in rest:
        across = f"H{plot.x(step):.1f}V{plot.y(value):.1f}"
        path.append(across if plot.scale is Scale.POWERS else f"L{plot.x(step):.1f} {plot.y(value):.1f}")
    return "".join(path)


def _dot(plot: Plot, line: Line, point: tuple[int, float], colour: int) -> str:
    step, value = point
    return (
        f'<circle class="dot c{colour}" cx="{plot.x(step):.1f}" cy="{plot.y(value):.1f}" r="3">'
        f"<title>{text(line.curve.tag)}, step {step}: {text(number(value))}</title></circle>"
    )


def _end_labels(plot: Plot, lines: Sequence[Line], show: Callable[[float], str]) -> list[str]:
    """Label the end of each line with its last value. Labels that would overlap are moved apart."""
    ends = sorted(
        (plot.y(points[-1][1]), colour_of(line, index), line.name, points[-1][1])
        for index, line in enumerate(lines)
        if (points := (smooth(line.curve) if line.soften else line.curve).finite)
    )
    labels, floor = [], plot.frame.top - 8.0
    room = plot.frame.height - plot.frame.bottom + 4.0
    x = plot.frame.width - plot.frame.right + 7
    for left, (y, colour, name, value) in zip(range(len(ends) - 1, -1, -1), ends, strict=True):
        floor = max(min(y + 3.5, room - 12.0 * left), floor + 12.0)
        words = f"{name} {show(value)}" if name else show(value)
        labels.append(f'<text class="end c{colour}" x="{x}" y="{floor:.1f}">{text(words)}</text>')
    return labels
