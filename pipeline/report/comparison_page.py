"""Render the comparison of runs as one self-contained HTML page: overlaid curves and tables of differences."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.report import sections
from pipeline.report.chart import COLOURS
from pipeline.report.comparison import ComparedRow, Comparison
from pipeline.report.document import render_document
from pipeline.report.formatting import moment, text
from pipeline.report.model import TONES, RunReport
from pipeline.report.overlay import draw_overlaid
from remote.protocol.quantities import count

LETTERS = "ABCDEF"
MAX_RUNS = len(LETTERS)
MAX_ROWS = 200


def render_comparison(comparison: Comparison, *, written_unix: float | None = None) -> str:
    """Return the HTML page. Equal comparisons give equal pages. All text is escaped."""
    loss, panels = draw_overlaid([(LETTERS[at], run.curves) for at, run in enumerate(comparison.runs)])
    names = [run.report.run for run in comparison.runs]
    body = (
        _head(comparison),
        sections.section("Settings that differ", _inputs(comparison.settings, comparison)),
        sections.charts(loss, panels),
        sections.section("Results", _table(comparison.results, comparison)),
        sections.section("Files that differ", _inputs(comparison.files, comparison)),
        sections.section("Machines and sources that differ", _table(comparison.machines, comparison)),
        _foot(names, written_unix),
    )
    return render_document(f"{len(names)} runs compared", "".join(body))


def _head(comparison: Comparison) -> str:
    runs = "".join(_run(at, run.report) for at, run in enumerate(comparison.runs))
    return (
        f'<header><div class="eyebrow">halfstep</div><h1>{len(comparison.runs)} runs compared</h1>'
        f'<ul class="runs">{runs}</ul></header>'
    )


def _run(at: int, report: RunReport) -> str:
    when = f" · {text(moment(report.began_unix))}" if report.began_unix else ""
    state = sections.pill(report.verdict.value, TONES[report.verdict])
    where = f'<span class="soft">{text(report.config)} on {text(report.host)}{when}</span>'
    return f"<li>{key(at)} <b>{text(report.run)}</b> {state} {where}</li>"


def key(at: int) -> str:
    """Return the letter of a run in the colour of its curves."""
    return f'<span class="letter k{at % COLOURS + 1}">{LETTERS[at]}</span>'


def _inputs(rows: Sequence[ComparedRow], comparison: Comparison) -> str:
    if comparison.unknown:
        names = ", ".join(comparison.unknown)
        return f'<p class="soft">not known: the inputs of {text(names)} were not recorded</p>'
    return _table(rows, comparison) or '<p class="soft">none</p>'


def _table(rows: Sequence[ComparedRow], comparison: Comparison) -> str:
    head = f"<tr><th></th>{''.join(f'<th>{key(at)}</th>' for at in range(len(comparison.runs)))}</tr>"
    body = [
        (
            sections.td(text(row.name), "soft"),
            *(sections.td(text(value), "differs" if row.differs else "soft") for value in row.values),
        )
        for row in rows[:MAX_ROWS]
    ]
    more = count(len(rows) - MAX_ROWS, "more row")
    return sections.table(body, head, "compared") + (f'<p class="soft">{more}</p>' if len(rows) > MAX_ROWS else "")


def _foot(names: Sequence[str], written_unix: float | None) -> str:
    when = f", {text(moment(written_unix))}" if written_unix else ""
    return f"<footer>Written by halfstep{when}. <code>pipeline report {text(' '.join(names))}</code></footer>"
