"""The whole page: one HTML text that needs nothing beside itself, for a screen in light or dark and for paper."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pipeline.report import sections
from pipeline.report.curves import Curve, gather_curves, smooth
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
}
WELL = (Verdict.TRAINED, Verdict.RUNNING)
# Nothing may be loaded or run, even where a foreign word slipped through.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render_report(report: RunReport) -> str:
    """The page. The same report always gives the same bytes; no word in it can become markup."""
    curves = gather_curves(report.scalars)
    body = (
        _head(report, curves),
        _numbers(report, curves),
        sections.findings(report.findings) if report.verdict not in WELL else "",
        sections.charts(draw_loss(curves), draw_panels(curves)),
        sections.scores(judge_scores(curves)),
        sections.cures(report.cures),
        sections.side_by_side(sections.stages(report.stages), sections.jobs(report.jobs)),
        sections.findings(report.findings) if report.verdict in WELL else "",
        sections.proof(report.proof),
        sections.fixes(report.fixes),
        sections.side_by_side(
            sections.facts("Environment", _surroundings(report)),
            sections.facts("What lies where", report.artifacts) + sections.facts("Not checked", _unseen(report)),
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


def tell(report: RunReport, curves: tuple[Curve, ...]) -> str:
    """The run in one or two sentences of HTML."""
    where = f"on <b>{text(report.host)}</b>" + (f" ({text(report.card)})" if report.card else "")
    name, _, _ = report.precision.partition(": ")
    mode = f" in <b>{text(name)}</b>" if name else ""
    if report.step is None:
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
        f'<p class="lead">{tell(report, curves)}</p></header>'
    )


def _numbers(report: RunReport, curves: tuple[Curve, ...]) -> str:
    """The few figures that one looks for first."""
    last = {last_part(curve.tag): curve for curve in curves if not is_evaluation(curve.tag) and curve.finite}
    rows: list[tuple[str, str, str]] = []
    loss = _train_loss(curves)
    if loss is not None and loss.finite:
        lowest = min(loss.finite, key=lambda point: point[1])
        rows.append(("Loss", number(smooth(loss).finite[-1][1]), f"lowest {number(lowest[1])} at step {lowest[0]}"))
    if report.step is not None:
        of = f"of {number(report.steps)} optimizer steps" if report.steps else "optimizer steps"
        rows.append(("Steps", number(report.step), of))
    if "skipped_steps" in last:
        rows.append(("Skipped steps", number(last["skipped_steps"].last), "by the gradient scaler"))
    if "loss_scale" in last:
        rows.append(("Loss scale", number(last["loss_scale"].last), "at the end"))
    if report.seconds is not None:
        rows.append(("Time", duration(report.seconds), ""))
    if "peak_memory" in last:
        total = report.proof.total_bytes if report.proof else None
        rows.append(("Peak memory", memory(last["peak_memory"].last), f"of {memory(total)}" if total else ""))
    cells = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}<small>{text(note)}</small></dd></div>"
        for name, value, note in rows
    )
    return f'<dl class="numbers">{cells}</dl>' if cells else ""


def _train_loss(curves: tuple[Curve, ...]) -> Curve | None:
    """The loss that was trained on: the longest of its name that is no evaluation's."""
    found = [curve for curve in curves if last_part(curve.tag) in LOSS.names and not is_evaluation(curve.tag)]
    return max(found, key=lambda curve: len(curve.finite), default=None)


def _surroundings(report: RunReport) -> Facts:
    """The environment, and why this precision."""
    return (*report.environment, *([("precision", report.precision)] if ": " in report.precision else []))


def _unseen(report: RunReport) -> Facts:
    """What nobody looked at, beside what the proof's own table already says."""
    told = {(unseen.check, unseen.reason) for unseen in report.proof.unseen} if report.proof else set()
    return tuple(row for row in report.not_checked if row not in told)


def _foot(report: RunReport) -> str:
    when = f", {text(moment(report.written_unix))}" if report.written_unix else ""
    version = f" {text(report.version)}" if report.version else ""
    return f"<footer>Written by halfstep{version}{when}. <code>pipeline report {text(report.run)}</code></footer>"


@cache
def _style() -> str:
    return Path(__file__).with_name("style.css").read_text(encoding="utf-8")
