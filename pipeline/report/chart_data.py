"""The points of a chart as JSON, from which the page's script draws an interactive chart."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.report.chart import SMALLEST, Line, Scale, colour_of
from pipeline.report.curves import Curve, smooth, thin
from remote.protocol.loss import LARGEST
from remote.protocol.text import safe_text

MAX_POINTS = 2000
DIGITS = 5
MAX_STEP = 10**15
"""uPlot computes each mark of an axis from the mark before it. With larger steps, a sum could equal its summand, and
marks would fill the browser's memory."""
# A script element ends at the first `</script`, even inside a JSON string.
IN_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def chart_data(lines: Sequence[Line], scale: Scale, suffix: str) -> str:
    """Return the JSON of a chart, safe inside a script element, or "" if uPlot cannot draw one of its numbers.

    `steps` are the steps of all lines. For each of these steps, a line has a value, or null if it has no value at the
    step. Softened lines also have means. `broken` are the steps whose value is infinite or NaN.
    """
    shown = [(line, thin(line.curve, MAX_POINTS)) for line in lines]
    broken = sorted({step for line in lines for step in line.curve.broken_steps})[:MAX_POINTS]
    steps = sorted({*broken, *(step for _, curve in shown for step, _ in curve.points)})
    drawn: list[dict[str, Any]] = [
        {
            "name": safe_text(line.name),
            "colour": colour_of(line, index),
            "values": _values(curve, steps),
            **({"means": _values(smooth(line.curve), steps)} if line.soften else {}),
        }
        for index, (line, curve) in enumerate(shown)
    ]
    values = (value for line in drawn for key in ("values", "means") for value in line.get(key, ()))
    if not are_drawable(steps, values):
        return ""
    body = {"scale": scale.value, "suffix": suffix, "steps": steps, "broken": broken, "lines": drawn}
    return json.dumps(body, separators=(",", ":"), allow_nan=False).translate(IN_HTML)


def are_drawable(steps: Iterable[int], values: Iterable[float | None]) -> bool:
    """Return True if uPlot can draw all of these numbers. None is a missing value."""
    return all(abs(step) <= MAX_STEP for step in steps) and all(
        not value or SMALLEST <= abs(value) <= LARGEST for value in values
    )


def _values(curve: Curve, steps: Sequence[int]) -> list[float | None]:
    known = dict(curve.points)
    return [_rounded(known[step]) if step in known else None for step in steps]


def _rounded(value: float) -> float | None:
    """Return the value rounded to DIGITS digits, or None if it is not finite.

    Integers are shorter in JSON than floats.
    """
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short
