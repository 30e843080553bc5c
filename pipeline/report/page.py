"""Render the report as one self-contained HTML page, in light and dark and for print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from pipeline.report import sections
from pipeline.report.curves import Curve, gather_curves, smooth
from pipeline.report.evaluation_section import evaluation, scores
from pipeline.report.formatting import duration, moment, number, text
from pipeline.report.model import Facts, RunReport, Verdict
from pipeline.report.panels import LOSS, draw_loss, draw_panels, is_evaluation, last_part
from pipeline.report.scores import judge_scores
from remote.protocol.quantities import memory

TONES = {
    Verdict.TRAINED: "good",
    Verdict.RUNNING: "calm",
    Verdict.STOPPED: "warn",
    Verdict.FAILED: "bad",
    Verdict.LOST: "bad",
    Verdict.NOT_STARTED: "quiet",
    Verdict.EVALUATED: "good",
}
Figure = tuple[str, str, str]
"""A name, its value and a note."""
WELL = (Verdict.TRAINED, Verdict.RUNNING, Verdict.EVALUATED)
# Forbid loading and scripts even if untrusted text were not escaped.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render_report(report: RunReport) -> str:
    """Return the page. Equal reports give equal bytes; all text is escaped."""
    curves = gather_curves(report.scalars)
    body = (
        _head(report, curves),
        _numbers(report, curves),
        sections.findings(report.findings) if report.verdict not in WELL else "",
        sections.charts(draw_loss(curves), draw_panels(curves)),
        evaluation(report.evaluation) if report.evaluation else scores(judge_scores(curves)),
        sections.cures(report.cures),
        sections.side_by_side(sections.stages(report.stages), sections.jobs(report.jobs)),
        sections.findings(report.findings) if report.verdict in WELL else "",
        sections.proof(report.proof),
        sections.fixes(report.fixes),
        sections.side_by_side(
            sections.facts("Environment", _environment(report)),
            sections.facts("Results", report.artifacts) + sections.facts("Not checked", _not_checked(report)),
        ),
        sections.source("Config", report.config_text),
        _foot(report),
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{text(report.run)}: {text(report.verdict.value)}</title><style>{_style()}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def lead(report: RunReport, curves: tuple[Curve, ...]) -> str:
    """Summarise the run in one or two sentences of HTML."""
    where = f"on <b>{text(report.host)}</b>" + (f" ({text(report.card)})" if report.card else "")
    name, _, _ = report.precision.partition(": ")
    mode = f" in <b>{text(name)}</b>" if name else ""
    if report.verdict is Verdict.EVALUATED:
        first = f"An adapter for <b>{text(report.config)}</b>, evaluated {where}{mode}."
    elif report.step is None:
        first = f"<b>{text(report.config)}</b> {where}{mode}: no optimizer step was made."
    else:
        of = f" of {number(report.steps)}" if report.steps else ""
        seconds = report.seconds
        took = f" in {text(duration(seconds))}" if seconds is not None else ""
        first = f"{number(report.step)}{of} optimizer steps of <b>{text(report.config)}</b> {where}{mode}{took}."
    loss = _train_loss(curves)
    fell = ""
    if loss is not None and len(loss.finite) > 1:
        begin, end = loss.finite[0][1], smooth(loss).finite[-1][1]
        verb = "fell" if end < begin else "rose"
        fell = f" The loss {verb} from <b>{text(number(begin))}</b> to <b>{text(number(end))}</b>."
    reason = f" {text(report.reason[:1].upper() + report.reason[1:])}." if report.reason else ""
    return first + fell + reason


def _head(report: RunReport, curves: tuple[Curve, ...]) -> str:
    when = f" · {text(moment(report.began_unix))}" if report.began_unix else ""
    project = f" · {text(report.project)}" if report.project else ""
    return (
        f'<header><div class="eyebrow">halfstep run{project}{when}</div>'
        f"<h1>{text(report.run)}{sections.pill(report.verdict.value, TONES[report.verdict])}</h1>"
        f'<p class="lead">{lead(report, curves)}</p></header>'
    )


def _numbers(report: RunReport, curves: tuple[Curve, ...]) -> str:
    """Return the key figures as a definition list."""
    last = {last_part(curve.tag): curve.last for curve in curves if not is_evaluation(curve.tag) and curve.finite}
    rows = (*_loss_figure(curves), *_run_figures(report), *_measured_figures(report, last))
    cells = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}<small>{text(note)}</small></dd></div>"
        for name, value, note in rows
    )
    return f'<dl class="numbers">{cells}</dl>' if cells else ""


def _loss_figure(curves: tuple[Curve, ...]) -> Iterator[Figure]:
    loss = _train_loss(curves)
    if loss is not None and loss.finite:
        step, lowest = min(loss.finite, key=lambda point: point[1])
        yield "Loss", number(smooth(loss).finite[-1][1]), f"lowest {number(lowest)} at step {step}"


def _run_figures(report: RunReport) -> Iterator[Figure]:
    if report.step is not None:
        of = f"of {number(report.steps)} optimizer steps" if report.steps else "optimizer steps"
        yield "Steps", number(report.step), of
    if report.seconds is not None:
        yield "Time", duration(report.seconds), ""


def _measured_figures(report: RunReport, last: Mapping[str, float]) -> Iterator[Figure]:
    if "skipped_steps" in last:
        yield "Skipped steps", number(last["skipped_steps"]), "by the gradient scaler"
    if "loss_scale" in last:
        yield "Loss scale", number(last["loss_scale"]), "at the end"
    if "peak_memory" in last:
        total = report.proof.total_bytes if report.proof else None
        yield "Peak memory", memory(last["peak_memory"]), f"of {memory(total)}" if total else ""


def _train_loss(curves: tuple[Curve, ...]) -> Curve | None:
    """Return the longest curve that is a training loss."""
    found = [curve for curve in curves if last_part(curve.tag) in LOSS.names and not is_evaluation(curve.tag)]
    return max(found, key=lambda curve: len(curve.finite), default=None)


def _environment(report: RunReport) -> Facts:
    """Return the facts about the host, and the reason for the precision."""
    return (*report.environment, *([("precision", report.precision)] if ": " in report.precision else []))


def _not_checked(report: RunReport) -> Facts:
    """Return the checks that were not made, except those that the proof's section lists."""
    listed = {(unseen.check, unseen.reason) for unseen in report.proof.unseen} if report.proof else set()
    return tuple(row for row in report.not_checked if row not in listed)


def _foot(report: RunReport) -> str:
    when = f", {text(moment(report.written_unix))}" if report.written_unix else ""
    version = f" {text(report.version)}" if report.version else ""
    return f"<footer>Written by halfstep{version}{when}. <code>pipeline report {text(report.run)}</code></footer>"


@cache
def _style() -> str:
    return Path(__file__).with_name("style.css").read_text(encoding="utf-8")
