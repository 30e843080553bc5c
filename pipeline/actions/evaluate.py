"""Run an evaluation as a job on the host, download its result, and add it to the report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.hosts.follow import follow_to_end
from pipeline.hosts.pull import judge_pulled, pull_run
from pipeline.judgements.job import judge_run, judge_watched
from pipeline.messages.listener import Listener
from pipeline.messages.outcome import StageOutcome, StageState
from pipeline.records.files import locked, write_atomic
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, note_job, note_seen, write_note, write_start
from pipeline.report.saved import is_reported, read_evaluation, render_saved_report
from pipeline.stages.train import commands_for, diagnose_output, interrupted_result
from pipeline.work.backend import Backend
from pipeline.work.evaluation import EvaluationWork
from pipeline.work.start import next_number
from remote.errors import Garbled
from remote.host import Host
from remote.operations.jobs import adopt_if_orphaned, start_job
from remote.protocol.evaluation import ANSWERS, RESULT, EvaluationResult
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.jobs import JobNews, JobState, RunSurvey
from remote.protocol.layout import ProjectLayout
from remote.protocol.quantities import size
from remote.protocol.survey import Survey

LARGEST_RESULT = 2**30


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that was requested. `secrets` are values by name; `trained` is the folder of the evaluated run."""

    work: EvaluationWork
    note: RunNote
    records: Records
    backend: Backend = field(default_factory=Backend)
    secrets: Mapping[str, str] = field(default_factory=dict)
    trained: Path | None = None

    @property
    def folder(self) -> Path:
        """The local folder of the evaluation."""
        return self.records.run(self.work.run, self.note.host)

    @property
    def name(self) -> str:
        """The name of its run in this project."""
        return self.records.run_name(self.work.run, self.note.host)


@dataclass
class Progress:
    """The progress of an evaluation: its stages, findings and result."""

    stages: list[StageOutcome] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    exit_code: ExitCode = ExitCode.OK
    run: RunSurvey | None = None
    result: EvaluationResult | None = None


def run_evaluation(
    host: Host, survey_host: Callable[[], Survey], wanted: Evaluation, listener: Listener, *, detach: bool = False
) -> Progress:
    """Start, join or resume the job, wait for its end, and download its result; skip what is done already."""
    progress = Progress()
    survey = survey_host()
    if adopt_if_orphaned(host, wanted.work.project, survey.run(wanted.work.run)):
        survey = survey_host()
    progress.run = survey.run(wanted.work.run)
    if progress.run is not None and progress.run.state is JobState.SUCCEEDED:
        write_note(wanted.records, wanted.note)
        _end(progress, listener, "evaluate", StageState.SKIPPED, _answers_of(progress.run))
    else:
        _answer(host, survey_host, wanted, listener, progress, detach=detach)
    if progress.run is not None:
        note_seen(wanted.folder, progress.run)
    if progress.exit_code is ExitCode.OK and progress.run is not None and progress.run.state is JobState.SUCCEEDED:
        _download(host, wanted, progress.run, listener, progress)
    return progress


def _answer(
    host: Host,
    survey_host: Callable[[], Survey],
    wanted: Evaluation,
    listener: Listener,
    progress: Progress,
    *,
    detach: bool,
) -> None:
    """Run the stage `evaluate`."""
    work, started_at = wanted.work, time.monotonic()
    listener.stage_started("evaluate")
    write_start(wanted.records, wanted.note)
    number = _start(host, wanted, listener, progress.run)
    if detach:
        _end(progress, listener, "evaluate", StageState.RUNNING, f"{wanted.name} keeps running on the host")
        for line in commands_for(wanted.name):
            listener.note(line)
        return
    last: list[JobNews] = []
    try:
        follow_to_end(host, work.project, work.run, listener, last.append)
    except KeyboardInterrupt:
        stopped = interrupted_result(wanted.name)
        progress.findings += stopped.report.findings
        progress.exit_code = stopped.exit_code
        _end(progress, listener, "evaluate", StageState.RUNNING, stopped.reason)
        return
    finally:
        if last:
            note_job(wanted.folder, last[-1].state, last[-1].progress, last[-1].result)
    progress.run = survey_host().run(work.run)
    report = judge_run(progress.run, wanted.name)
    progress.findings += judge_watched(wanted.name, progress.run.watched if progress.run else ())
    took = time.monotonic() - started_at
    if report.ok and progress.run is not None:
        _end(progress, listener, "evaluate", StageState.DONE, _answers_of(progress.run), took)
        return
    found = diagnose_output(host, work.project, work.run, number, wanted.folder, tuple(wanted.secrets.values()))
    hinted = (replace(one, hint=one.hint or wanted.note.again) for one in report.findings)
    progress.findings += (*found.findings, *hinted)
    progress.exit_code = exit_code_of(report.findings, ExitCode.TRAINING)
    _end(progress, listener, "evaluate", StageState.FAILED, report.errors[0].message, took)


def _start(host: Host, wanted: Evaluation, listener: Listener, run: RunSurvey | None) -> int:
    """Return the number of the job that runs now: a new one, or the one that is running already."""
    if run is not None and run.state is JobState.RUNNING:
        listener.progress(f"attaching to {wanted.name}, which is running")
        return run.job
    number = next_number(run)
    if run is not None and run.progress is not None:
        listener.note(f"resuming {wanted.name}: {run.progress.step} answers are kept")
    request = wanted.work.start_request(number, dict(wanted.secrets), wanted.backend)
    try:
        return start_job(host, request).number
    except KeyboardInterrupt:
        for line in (f"{wanted.name} may have started", *commands_for(wanted.name)):
            listener.note(line)
        raise


def _download(host: Host, wanted: Evaluation, run: RunSurvey, listener: Listener, progress: Progress) -> None:
    """Run the stage `logs`: event files, output, answers and the result; then update the report."""
    folder, started_at = wanted.folder, time.monotonic()
    progress.result = read_evaluation(folder)
    if progress.result is not None and judge_pulled(folder, run).ok:
        _end(progress, listener, "logs", StageState.SKIPPED, f"complete in {_shown(folder)}")
    else:
        listener.stage_started("logs")
        with locked(folder / "pull.lock", f"evaluate {wanted.name}"):
            pulled = pull_run(host, wanted.work.project, run, folder, weights=False, listener=listener)
            added = pulled.added_bytes + _fetch_result(host, wanted)
        progress.findings += pulled.findings
        progress.result = read_evaluation(folder)
        if progress.result is None:
            raise Garbled(f"{host.name} sent a malformed {RESULT}", where=host.name, hint=wanted.note.again)
        took = time.monotonic() - started_at
        summary = f"{size(added)} downloaded to {_shown(folder)}"
        _end(progress, listener, "logs", StageState.DONE, summary, took)
    _add_to_report(wanted)


def _fetch_result(host: Host, wanted: Evaluation) -> int:
    """Download the answers and, last, the result; return their size."""
    root = ProjectLayout(wanted.work.project).run(wanted.work.run).root
    total = 0
    for name in (ANSWERS, RESULT):
        data = bytearray()
        args = {"path": f"{root}/{name}", "limit": LARGEST_RESULT}
        host.fetch("file.read", args, data.extend, limit=LARGEST_RESULT, timeout_s=600.0)
        write_atomic(wanted.folder / name, bytes(data))
        total += len(data)
    return total


def _add_to_report(wanted: Evaluation) -> None:
    """Show the result on the page of the run that was evaluated."""
    trained = wanted.trained
    if trained is None or not is_reported(trained):
        return
    data = (wanted.folder / RESULT).read_bytes()
    if not (trained / RESULT).exists() or (trained / RESULT).read_bytes() != data:
        write_atomic(trained / RESULT, data)
    render_saved_report(trained)


def _end(
    progress: Progress, listener: Listener, stage: str, state: StageState, reason: str, seconds: float = 0.0
) -> None:
    outcome = StageOutcome(stage, state, seconds, reason)
    progress.stages.append(outcome)
    listener.stage_ended(outcome)


def _answers_of(run: RunSurvey) -> str:
    return f"{run.progress.step} answers" if run.progress is not None else "done"


def _shown(folder: Path) -> str:
    return os.path.relpath(folder, folder.parents[2])
