"""Compose the report of a run from a view, the saved evidence and the survey of its jobs."""

from __future__ import annotations

from dataclasses import replace

from pipeline import __version__
from pipeline.judgements.host import facts_of
from pipeline.judgements.job import judge_watched
from pipeline.messages.outcome import StageOutcome
from pipeline.report.evidence import Evidence
from pipeline.report.model import JobRow, RunReport, Verdict
from pipeline.work.view import View, card_of
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobResult, JobState, RunSurvey, StartAnswer, Started


def report_of(
    view: View,
    run: RunSurvey,
    jobs: tuple[JobRow, ...],
    evidence: Evidence,
    stages: tuple[StageOutcome, ...],
    findings: tuple[Finding, ...],
) -> RunReport:
    """Return the report of a run without curves and results, which `render_saved_report` adds."""
    precision = view.precision
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
        fixes=evidence.fixes,
        proof=evidence.proof,
        cures=evidence.cures,
        findings=merge_findings(findings, judge_watched(run.run, run.watched)),
        environment=tuple(facts_of(view.survey)),
        config_text=view.loaded.path.read_text("utf-8", "replace"),
        not_checked=tuple((unseen.check, unseen.reason) for unseen in evidence.proof.unseen) if evidence.proof else (),
    )


def merge_findings(findings: tuple[Finding, ...], watched: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return all errors and warnings, and the watch's findings that are not among them."""
    problems = tuple(finding for finding in findings if finding.severity is not Severity.INFO)
    return (*problems, *(finding for finding in watched if finding not in problems))


def verdict_of(run: RunSurvey) -> Verdict:
    """Return the state of the run in one word."""
    if run.state is JobState.FAILED and run.result is not None and run.result.preempted:
        return Verdict.STOPPED
    return {
        JobState.ABSENT: Verdict.NOT_STARTED,
        JobState.RUNNING: Verdict.RUNNING,
        JobState.SUCCEEDED: Verdict.TRAINED,
        JobState.FAILED: Verdict.FAILED,
        JobState.STOPPED: Verdict.STOPPED,
        JobState.LOST: Verdict.LOST,
    }[run.state]


def jobs_of(run: RunSurvey, known: tuple[StartAnswer, ...]) -> tuple[JobRow, ...]:
    """Return a row per job of the run. Only the newest job has first and last steps."""
    rows = {answer.number: _row(answer.number, answer.state, answer.started, answer.result) for answer in known}
    if run.job:
        began, step = (run.progress.began, run.progress.step) if run.progress else (None, None)
        row = _row(run.job, run.state, run.started, run.result)
        rows[run.job] = replace(row, first_step=began, last_step=step)
    return tuple(rows[number] for number in sorted(rows))


def _row(number: int, state: JobState, started: Started | None, result: JobResult | None) -> JobRow:
    seconds = result.ended_unix - started.started_unix if result and started and started.started_unix else None
    return JobRow(number, state, seconds=seconds, reason=result.reason if result else "")
