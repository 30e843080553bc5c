"""Compose the report of a run from a view, the saved evidence and the survey of its jobs."""

from __future__ import annotations

from dataclasses import replace

from pipeline import __version__
from pipeline.judgements.host import facts_of
from pipeline.judgements.job import judge_watched
from pipeline.messages.outcome import Outcome, StageOutcome
from pipeline.report.evidence import Evidence
from pipeline.report.model import Facts, JobRow, RunReport, Verdict, verdict_in
from pipeline.runs.run_id import training_fingerprint
from pipeline.runs.secrets import secrets_of
from pipeline.runs.view import View, card_of
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobResult, JobState, RunSurvey, StartAnswer, Started

PACKAGES = ("transformers", "peft", "accelerate", "trl", "lightning", "datasets", "numpy", "bitsandbytes", "flash-attn")


def report_of(
    view: View,
    run: RunSurvey,
    jobs: tuple[JobRow, ...],
    evidence: Evidence,
    stages: tuple[StageOutcome, ...],
    findings: tuple[Finding, ...],
) -> RunReport:
    """Return the report of a run without curves and results. `render_saved_report` adds both."""
    precision = view.precision
    progress, proof = run.progress, evidence.proofs.get(training_fingerprint(view))
    return RunReport(
        run=run.run,
        config=view.loaded.name,
        host=view.host.name,
        verdict=verdict_of(run),
        project=str(view.loaded.root),
        card=_card(view),
        precision=f"{precision.mode.value}: {precision.because}",
        step=progress.step if progress else None,
        steps=progress.steps if progress else None,
        reason=run.result.reason if run.result else "",
        began_unix=run.created_unix or None,
        version=__version__,
        stages=stages,
        jobs=jobs,
        fixes=evidence.fixes,
        proof=proof,
        cures=evidence.cures,
        findings=with_commands(view, merge_findings(findings, judge_watched(run.run, run.watched, findings))),
        environment=environment_of(view),
        config_text=view.loaded.text,
        loss=progress.loss if progress else None,
        best_loss=progress.best_loss if progress else None,
        first_loss=progress.first_loss if progress else None,
        elapsed_s=run.run_elapsed_s,
        secrets=secrets_of(view.host.config, view.config),
        not_checked=tuple((unseen.check, unseen.reason) for unseen in proof.unseen) if proof else (),
    )


def _card(view: View) -> str:
    """Return 'TITAN RTX 7.5', with ', assumed' if the host's driver does not list the card."""
    gpu = view.survey.gpu
    return f"{card_of(view)}{', assumed' if gpu is not None and gpu.assumed else ''}"


def environment_of(view: View) -> Facts:
    """Return the facts about the host, and the versions of the packages in PACKAGES."""
    packages = view.survey.interpreter.packages
    return (*facts_of(view.survey), *((name, packages[name]) for name in PACKAGES if name in packages))


def merge_findings(findings: tuple[Finding, ...], watched: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the errors and warnings in `findings`, and all `watched` findings, without duplicates."""
    problems = tuple(finding for finding in findings if finding.severity is not Severity.INFO)
    return (*problems, *(finding for finding in watched if finding not in problems))


def with_commands(view: View, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings with complete commands in their hints, identical to the output in the terminal."""
    return Outcome(
        "run", host=view.host.name, config=view.loaded.name, findings=findings, given=view.given
    ).shown_findings


def verdict_of(run: RunSurvey) -> Verdict:
    """Return the state of the run in one word."""
    return verdict_in(run.state, preempted=run.result is not None and run.result.preempted, waits=run.waits)


def jobs_of(run: RunSurvey, known: tuple[StartAnswer, ...]) -> tuple[JobRow, ...]:
    """Return a row per job of the run. `known` are the earlier jobs, with their first and last steps."""
    rows = {answer.number: _earlier_row(answer) for answer in known}
    if run.job:
        began, step = (run.progress.began, run.progress.step) if run.progress else (None, None)
        row = _row(run.job, run.state, run.started, run.result)
        rows[run.job] = replace(row, first_step=began, last_step=step, seconds=row.seconds or run.elapsed_s)
    return tuple(rows[number] for number in sorted(rows))


def _earlier_row(answer: StartAnswer) -> JobRow:
    row = _row(answer.number, answer.state, answer.started, answer.result)
    return replace(row, first_step=answer.first_step, last_step=answer.last_step)


def _row(number: int, state: JobState, started: Started | None, result: JobResult | None) -> JobRow:
    seconds = result.ended_unix - started.started_unix if result and started and started.started_unix else None
    return JobRow(number, state, seconds=seconds, reason=result.reason if result else "")
