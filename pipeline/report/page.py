"""Render the report as one self-contained HTML page, with light, dark and print styles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pipeline.messages.outcome import StageOutcome
from pipeline.report import sections
from pipeline.report.curves import MEANS, Curve, curve_of_means, gather_curves
from pipeline.report.document import render_document
from pipeline.report.evaluation_section import evaluation, scores
from pipeline.report.formatting import duration, moment, number, text
from pipeline.report.model import TONES, Facts, RunReport, Verdict
from pipeline.report.panels import draw_loss, draw_panels, is_evaluation, last_part, train_loss
from pipeline.report.scores import judge_scores
from remote.protocol.loss import FEWEST, MeanLoss, loss_text, steps_in_mean
from remote.protocol.quantities import count, memory

Figure = tuple[str, str, str]
"""A name, its value and a note."""
SHOWN_PATHS = 5
WELL = (Verdict.TRAINED, Verdict.QUEUED, Verdict.RUNNING, Verdict.EVALUATED)


def render_report(report: RunReport) -> str:
    """Return the HTML page. Equal reports give equal pages. All text is escaped."""
    curves = curves_of(report)
    is_well = report.verdict in WELL
    found = sections.findings(report.findings)
    body = (
        _head(report, curves),
        _numbers(report, curves),
        "" if is_well else found,
        "" if is_well else sections.source("End of the log", report.output, is_open=True),
        sections.charts(draw_loss(curves), draw_panels(curves)),
        evaluation(report.evaluation) if report.evaluation else scores(judge_scores(curves)),
        sections.cures(report.cures),
        sections.side_by_side(sections.stages(_stages(report)), sections.jobs(report.jobs)),
        found if is_well else "",
        sections.proof(report.proof),
        sections.fixes(report.fixes),
        sections.side_by_side(
            sections.facts("Environment", _environment(report)),
            sections.facts("Source", _source(report))
            + sections.facts("Results", report.artifacts)
            + sections.facts("Not checked", _not_checked(report)),
        ),
        sections.source("End of the log", report.output) if is_well else "",
        sections.source("Config", report.config_text),
        _foot(report),
    )
    return render_document(f"{report.run}: {report.verdict.value}", "".join(body))


def curves_of(report: RunReport) -> tuple[Curve, ...]:
    """Return a curve per tag. If the event files have no training loss, add the losses that the jobs recorded."""
    curves = gather_curves(report.scalars)
    first, last = _first_step(report), report.step or 0
    if train_loss(curves) is not None or not report.losses or (last <= first and not report.loss_steps):
        return curves
    means = curve_of_means(report.losses, report.loss_steps, first, last)
    if report.loss is not None and means.points and means.points[-1][0] < last:
        means = Curve(means.tag, (*means.points, (last, report.loss)))  # only some means are recorded
    return (*curves, _with_first_loss(means, report))


def _with_first_loss(means: Curve, report: RunReport) -> Curve:
    """Return the curve with the loss of the first step, which the recorded means may lack."""
    is_whole = bool(report.loss_steps) or not _first_step(report)
    if report.first_loss is None or not is_whole or not means.points or means.points[0][0] <= 1:
        return means
    return Curve(means.tag, ((1, report.first_loss), *means.points))


def _first_step(report: RunReport) -> int:
    return (report.jobs[-1].first_step if report.jobs else None) or 0


def lead(report: RunReport, curves: tuple[Curve, ...]) -> str:
    """Summarise the run in one or two sentences of HTML."""
    where = f"on <b>{text(report.host)}</b>" + (f" ({text(report.card)})" if report.card else "")
    name, _, _ = report.precision.partition(": ")
    mode = f" in <b>{text(name)}</b>" if name else ""
    if report.verdict is Verdict.EVALUATED:
        first = f"An adapter for <b>{text(report.config)}</b>, evaluated {where}{mode}."
    elif report.is_ongoing:
        first = f"<b>{text(report.config)}</b> {where}{mode}: {_progress(report)}."
    elif report.step is None:
        first = f"<b>{text(report.config)}</b> {where}{mode}: no optimizer step was made."
    else:
        took = f" in {text(duration(report.seconds))}" if report.seconds is not None else ""
        first = f"{_steps(report)} optimizer steps of <b>{text(report.config)}</b> {where}{mode}{took}."
    reason = f" {text(report.reason[:1].upper() + report.reason[1:])}." if report.reason else ""
    seen = f" As of {text(moment(report.seen_unix))}." if report.is_ongoing and report.seen_unix else ""
    return first + _change_of_loss(report, curves) + reason + seen


def _change_of_loss(report: RunReport, curves: tuple[Curve, ...]) -> str:
    loss, (end, _) = train_loss(curves), shown_loss(report, curves)
    if loss is None or len(loss.finite) < 2 or end is None:
        return ""
    if loss.tag == MEANS and _first_step(report) and not report.loss_steps:
        return ""  # the losses of the earlier jobs are not known
    begin = report.first_loss if report.first_loss is not None else loss.finite[0][1]
    verb = ("has fallen" if end < begin else "has risen") if report.is_ongoing else "fell" if end < begin else "rose"
    return f" The loss {verb} from {_bold(loss_text(begin))} to {_bold(loss_text(end), '.')}"


def _progress(report: RunReport) -> str:
    """Return 'running, step 40 of 120, after 1 min 12 s'."""
    step = f", step {_steps(report)}" if report.step is not None else ""
    took = f", after {text(duration(report.seconds))}" if report.seconds is not None else ""
    return f"{report.verdict.value}{step}{took}"


def _steps(report: RunReport) -> str:
    return number(report.step or 0) + (f" of {number(report.steps)}" if report.steps else "")


def _bold(words: str, after: str = "") -> str:
    """Return words in bold. A line break cannot separate the punctuation `after` from the words."""
    return f'<span class="whole-word"><b>{text(words)}</b>{after}</span>'


def _head(report: RunReport, curves: tuple[Curve, ...]) -> str:
    when = f" · {text(moment(report.began_unix))}" if report.began_unix else ""
    project = f" · {text(report.project)}" if report.project else ""
    return (
        f'<header><div class="eyebrow">halfstep run{project}{when}</div>'
        f"<h1>{text(report.run)}{sections.pill(report.verdict.value, TONES[report.verdict])}</h1>"
        f'<p class="lead">{lead(report, curves)}</p></header>'
    )


def _numbers(report: RunReport, curves: tuple[Curve, ...]) -> str:
    """Return the key figures as a definition list, or "" if there are none."""
    rows = (*_loss_figure(report, curves), *_run_figures(report), *_measured_figures(report, last_values(curves)))
    cells = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}<small>{text(note)}</small></dd></div>"
        for name, value, note in rows
    )
    return f'<dl class="numbers">{cells}</dl>' if cells else ""


def _loss_figure(report: RunReport, curves: tuple[Curve, ...]) -> Iterator[Figure]:
    loss, lowest = shown_loss(report, curves)
    if loss is not None:
        steps = min(report.step, steps_in_mean(report.step)) if report.step else FEWEST
        best = f"; lowest {loss_text(lowest)}" if lowest is not None else ""
        yield "Loss", loss_text(loss), f"mean of the last {count(steps, 'step')}{best}"


def shown_loss(report: RunReport, curves: tuple[Curve, ...]) -> tuple[float | None, float | None]:
    """Return the loss and the lowest loss that `status` shows, or both from the curve. Unknown values are None."""
    if report.loss is not None:
        return report.loss, report.best_loss
    curve, loss = train_loss(curves), MeanLoss()
    for step, value in curve.finite if curve is not None else ():
        loss.add(step, value)
    return loss.mean, loss.lowest


def last_values(curves: Iterable[Curve]) -> dict[str, float]:
    """Return the last value of each training curve, by the last part of the curve's tag."""
    return {last_part(curve.tag): curve.last for curve in curves if not is_evaluation(curve.tag) and curve.finite}


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
        yield "Loss scale", number(last["loss_scale"]), "now" if report.is_ongoing else "at the end"
    if "peak_memory" in last:
        total = report.proof.total_bytes if report.proof else None
        yield "Peak memory", memory(last["peak_memory"]), f"of {memory(total)}" if total else ""


def _stages(report: RunReport) -> tuple[StageOutcome, ...]:
    """Return the stages. The duration of `train` is the total duration of all jobs."""
    seconds = report.seconds or 0.0
    return tuple(
        replace(stage, seconds=seconds or stage.seconds) if stage.name == "train" else stage for stage in report.stages
    )


def _environment(report: RunReport) -> Facts:
    """Return the facts about the host, and the reason for the precision."""
    return (*report.environment, *([("precision", report.precision)] if ": " in report.precision else []))


def _source(report: RunReport) -> Facts:
    """Return the command, the commit of the files, and the files that differ from the commit."""
    rows = [("command", report.command)] if report.command else []
    if report.commit:
        rows.append(("git commit", report.commit))
        paths = report.uncommitted
        more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
        changed = f"{count(len(paths), 'file')} not committed: {', '.join(paths[:SHOWN_PATHS])}{more}"
        rows.append(("work tree", changed if paths else "as committed"))
    return tuple(rows)


def _not_checked(report: RunReport) -> Facts:
    """Return the checks that were not run, except the checks that the proof's section lists."""
    listed = {(unseen.check, unseen.reason) for unseen in report.proof.unseen} if report.proof else set()
    return tuple(row for row in report.not_checked if row not in listed)


def _foot(report: RunReport) -> str:
    when = f", {text(moment(report.written_unix))}" if report.written_unix else ""
    version = f" {text(report.version)}" if report.version else ""
    return f"<footer>Written by halfstep{version}{when}. <code>pipeline report {text(report.run)}</code></footer>"
