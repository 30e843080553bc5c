"""One run's report: composed from what is known now, kept beside the run, drawn with whatever curves are here."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from pipeline import __version__
from pipeline.files import write_whole
from pipeline.outcome import StageOutcome
from pipeline.report.model import JobRow, RunReport, Verdict
from pipeline.report.page import render_report
from pipeline.stages.fix import card_of
from pipeline.stages.readiness import facts_of
from pipeline.stages.view import View
from pipeline.story import Story
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobResult, JobState, RunSurvey, StartAnswer, Started
from remote.protocol.values import Malformed, decode, dumps
from remote.pull.live import mirrored_scalars

PAGE = "report.html"
VALUES = "report.json"


def report_of(
    view: View,
    run: RunSurvey,
    jobs: tuple[JobRow, ...],
    story: Story,
    stages: tuple[StageOutcome, ...],
    findings: tuple[Finding, ...],
) -> RunReport:
    """What there is to tell of a run, without its curves."""
    precision = view.precision
    folder = view.memory.run(run.run)
    progress = run.progress
    return RunReport(
        run=run.run,
        config=view.loaded.name,
        host=view.host.name,
        verdict=verdict_of(run),
        project=str(view.loaded.root),
        card=card_of(view),
        precision=f"{precision.mode.value}: {precision.because}",
        step=progress.step if progress else None,
        steps=progress.steps if progress else None,
        reason=run.result.reason if run.result else "",
        began_unix=run.created_unix or None,
        ended_unix=run.result.ended_unix if run.result else None,
        version=__version__,
        stages=stages,
        jobs=jobs,
        fixes=story.fixes,
        proof=story.proof,
        cures=story.cures,
        findings=tuple(finding for finding in findings if finding.severity is not Severity.INFO),
        environment=tuple(facts_of(view.survey)),
        config_text=view.loaded.path.read_text("utf-8", "replace"),
        artifacts=(("tensorboard", str(folder / "tensorboard")), ("adapter", str(folder / "adapter"))),
        not_checked=tuple((unseen.check, unseen.reason) for unseen in story.proof.unseen) if story.proof else (),
    )


def verdict_of(run: RunSurvey) -> Verdict:
    """The run in one word."""
    if run.state is JobState.FAILED and run.result is not None and (run.result.stopped or run.result.preempted):
        return Verdict.STOPPED
    return {
        JobState.ABSENT: Verdict.NOT_STARTED,
        JobState.RUNNING: Verdict.RUNNING,
        JobState.SUCCEEDED: Verdict.TRAINED,
        JobState.FAILED: Verdict.FAILED,
        JobState.LOST: Verdict.LOST,
    }[run.state]


def jobs_of(run: RunSurvey, known: tuple[StartAnswer, ...]) -> tuple[JobRow, ...]:
    """Every job of the run as the host tells it; where a training process began and ended only of the newest."""
    rows = {answer.number: _row(answer.number, answer.state, answer.started, answer.result) for answer in known}
    if run.job:
        step = run.progress.step if run.progress else None
        rows[run.job] = replace(_row(run.job, run.state, run.started, run.result), last_step=step)
    return tuple(rows[number] for number in sorted(rows))


def _row(number: int, state: JobState, started: Started | None, result: JobResult | None) -> JobRow:
    seconds = result.ended_unix - started.started_unix if result and started and started.started_unix else None
    return JobRow(number, state, seconds=seconds, reason=result.reason if result else "")


def keep_report(folder: Path, report: RunReport) -> Path:
    """The run's folder has the report's values and its page; the path of the page."""
    write_whole(folder / VALUES, dumps(report))
    return draw_report(folder)


def draw_report(folder: Path) -> Path:
    """The page is drawn anew from the kept values and the curves that are here. Raises FileNotFoundError."""
    report = decode(RunReport, json.loads((folder / VALUES).read_bytes()))
    scalars = tuple(mirrored_scalars(folder))
    page = render_report(replace(report, scalars=scalars, written_unix=time.time()))
    write_whole(folder / PAGE, page.encode())
    return folder / PAGE


def has_report(folder: Path) -> bool:
    """There is something to draw."""
    try:
        decode(RunReport, json.loads((folder / VALUES).read_bytes()))
    except (OSError, ValueError, Malformed):
        return False
    return True
