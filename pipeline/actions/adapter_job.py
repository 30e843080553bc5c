"""Run an evaluation or a merge of an adapter as a job on the host; download the scores and add them to the report."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

from pipeline.hosts.follow import follow_to_end
from pipeline.hosts.pull import judge_pulled, pull_run
from pipeline.judgements.job import judge_run, judge_watched
from pipeline.messages.listener import Listener
from pipeline.messages.outcome import Outcome, StageOutcome, StageState, job_outcome
from pipeline.records.files import disk_full_as_error, locked, write_atomic
from pipeline.records.last_seen import note_seen
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note, write_start
from pipeline.report.saved import is_reported, read_evaluation, render_saved_report
from pipeline.runs.backend import Backend
from pipeline.runs.evaluation import AdapterWork
from pipeline.runs.start import next_number
from pipeline.stages.train import commands_for, diagnose_output, interrupted_result, with_diagnosis
from remote.errors import Garbled
from remote.host import Host
from remote.operations.jobs import adopt_if_orphaned, start_job, survey_runs
from remote.project.records_folder import opened_folder
from remote.protocol.dataclass import dataclass, field
from remote.protocol.evaluation import ANSWERS, RESULT, EvaluationResult
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.frames import MAX_JSON
from remote.protocol.jobs import JobState, RunSurvey
from remote.protocol.layout import ProjectLayout
from remote.protocol.parts import replacing
from remote.protocol.quantities import size
from remote.protocol.regular import read_regular

LARGEST = {ANSWERS: 2**30, RESULT: MAX_JSON}
"""The maximum size of each downloaded file, in bytes. The answers are streamed to disk."""
RESULTS = "evaluate"
"""The stage whose result is downloaded. The result of a merge is not downloaded."""


@dataclass(frozen=True)
class AdapterJob:
    """A job that evaluates or merges an adapter.

    `secrets` maps names to values. `trained` is the local folder of the run whose adapter is evaluated.
    """

    work: AdapterWork
    note: RunNote
    records: Records
    backend: Backend = field(default_factory=Backend)
    secrets: Mapping[str, str] = field(default_factory=dict)
    trained: Path | None = None

    @property
    def folder(self) -> Path:
        """The local folder of the job's run."""
        return self.records.run(self.work.run, self.note.host)

    @property
    def name(self) -> str:
        """The name of the job's run in this project."""
        return self.records.run_name(self.work.run, self.note.host)


@dataclass
class Progress:
    """The progress of an adapter's job: its stages, findings and result."""

    stages: list[StageOutcome] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    exit_code: ExitCode = ExitCode.OK
    run: RunSurvey | None = None
    result: EvaluationResult | None = None

    def outcome(self, command: str, adapter_job: AdapterJob) -> Outcome:
        """Return what the command reports of the job."""
        note = adapter_job.note
        return Outcome(
            command,
            self.exit_code,
            host=note.host,
            config=note.config,
            run=adapter_job.name,
            stages=tuple(self.stages),
            findings=tuple(self.findings),
            job=job_outcome(self.run) if self.run is not None else None,
            given=note.given,
        )


def run_adapter_job(host: Host, adapter_job: AdapterJob, listener: Listener, *, detach: bool = False) -> Progress:
    """Start, reattach to or resume the job, wait for its end, and download its result. Completed steps are skipped."""
    progress = Progress()
    survey = survey_runs(host, adapter_job.work.project)
    if adopt_if_orphaned(host, adapter_job.work.project, survey.run(adapter_job.work.run)):
        survey = survey_runs(host, adapter_job.work.project)
    progress.run = survey.run(adapter_job.work.run)
    if progress.run is not None and progress.run.state is JobState.SUCCEEDED:
        write_note(adapter_job.records, adapter_job.note)
        _end_stage(progress, listener, adapter_job.work.stage, StageState.SKIPPED, _answer_count(progress.run))
    else:
        _run_stage(host, adapter_job, listener, progress, detach=detach)
    if progress.run is not None:
        note_seen(adapter_job.folder, progress.run)
    done = progress.exit_code is ExitCode.OK and progress.run is not None and progress.run.state is JobState.SUCCEEDED
    if done and progress.run is not None and adapter_job.work.stage == RESULTS:
        _download(host, adapter_job, progress.run, listener, progress)
    return progress


def _run_stage(
    host: Host,
    adapter_job: AdapterJob,
    listener: Listener,
    progress: Progress,
    *,
    detach: bool,
) -> None:
    """Run the stage `evaluate` or `merge`."""
    work, started_at = adapter_job.work, time.monotonic()
    listener.stage_started(work.stage)
    write_start(adapter_job.records, adapter_job.note)
    number = _start(host, adapter_job, listener, progress.run)
    if detach:
        _end_stage(progress, listener, work.stage, StageState.RUNNING, f"{adapter_job.name} keeps running on the host")
        for line in commands_for(adapter_job.name):
            listener.note(line)
        return
    try:
        follow_to_end(host, work.project, work.run, listener, adapter_job.folder)
    except KeyboardInterrupt:
        stopped = interrupted_result(adapter_job.name)
        progress.findings += stopped.report.findings
        progress.exit_code = stopped.exit_code
        _end_stage(progress, listener, work.stage, StageState.RUNNING, stopped.reason)
        return
    progress.run = survey_runs(host, work.project).run(work.run)
    report = judge_run(progress.run, adapter_job.name, adapter_job.note.resume_command)
    progress.findings += judge_watched(adapter_job.name, progress.run.watched if progress.run else ())
    took = time.monotonic() - started_at
    if report.ok and progress.run is not None:
        _end_stage(progress, listener, work.stage, StageState.DONE, _answer_count(progress.run), took)
        return
    found = diagnose_output(
        host, work.project, work.run, number, adapter_job.folder, tuple(adapter_job.secrets.values())
    )
    progress.findings += with_diagnosis(adapter_job.name, report, found).findings
    progress.exit_code = exit_code_of(report.findings, ExitCode.TRAINING)
    _end_stage(progress, listener, work.stage, StageState.FAILED, report.errors[0].message, took)


def _start(host: Host, adapter_job: AdapterJob, listener: Listener, run: RunSurvey | None) -> int:
    """Start the job unless it is already running, and return its number."""
    if run is not None and run.state is JobState.RUNNING:
        listener.progress(f"attaching to {adapter_job.name}, which is {run.shown_state}")
        return run.job
    number = next_number(run)
    if run is not None and run.progress is not None:
        listener.note(f"resuming {adapter_job.name}: {run.progress.step} answers are kept")
    request = adapter_job.work.start_request(number, dict(adapter_job.secrets), adapter_job.backend)
    try:
        return start_job(host, request).number
    except KeyboardInterrupt:
        for line in (f"{adapter_job.name} may have started", *commands_for(adapter_job.name)):
            listener.note(line)
        raise


def _download(host: Host, adapter_job: AdapterJob, run: RunSurvey, listener: Listener, progress: Progress) -> None:
    """Run the stage `logs`: event files, output, answers and the result; then update the report."""
    folder, started_at = adapter_job.folder, time.monotonic()
    progress.result = read_evaluation(folder)
    if progress.result is not None and judge_pulled(folder, run).ok:
        _end_stage(progress, listener, "logs", StageState.SKIPPED, f"complete in {_display_path(folder)}")
    else:
        listener.stage_started("logs")
        with locked(folder / "pull.lock", f"evaluate {adapter_job.name}"):
            pulled = pull_run(host, adapter_job.work.project, run, folder, weights=False, listener=listener)
            added = pulled.added_bytes + _fetch_result(host, adapter_job)
        progress.findings += pulled.findings
        progress.result = read_evaluation(folder)
        if progress.result is None:
            raise Garbled(
                f"{host.name} sent a malformed {RESULT}", where=host.name, hint=adapter_job.note.resume_command
            )
        took = time.monotonic() - started_at
        summary = f"{size(added)} downloaded to {_display_path(folder)}"
        _end_stage(progress, listener, "logs", StageState.DONE, summary, took)
    _add_to_report(adapter_job)


def _fetch_result(host: Host, adapter_job: AdapterJob) -> int:
    """Download the answers, then the result; return their total size in bytes."""
    root = ProjectLayout(adapter_job.work.project).run(adapter_job.work.run).root
    total = 0
    for name in (ANSWERS, RESULT):
        path, limit = adapter_job.folder / name, LARGEST[name]
        args = {"path": f"{root}/{name}", "limit": limit}
        with disk_full_as_error(path), opened_folder(path.parent) as folder, replacing(name, folder) as file:
            host.fetch("file.read", args, partial(_append, file), limit=limit, timeout_s=600.0)
            total += file.tell()
    return total


def _append(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def _add_to_report(adapter_job: AdapterJob) -> None:
    """Add the result to the report of the run that was evaluated."""
    trained = adapter_job.trained
    if trained is None or not is_reported(trained):
        return
    data = read_regular(adapter_job.folder / RESULT, MAX_JSON)
    present = b""
    with contextlib.suppress(OSError):
        present = read_regular(trained / RESULT, MAX_JSON)
    if present != data:
        write_atomic(trained / RESULT, data)
    render_saved_report(trained)


def _end_stage(
    progress: Progress, listener: Listener, stage: str, state: StageState, reason: str, seconds: float = 0.0
) -> None:
    outcome = StageOutcome(stage, state, seconds, reason)
    progress.stages.append(outcome)
    listener.stage_ended(outcome)


def _answer_count(run: RunSurvey) -> str:
    return f"{run.progress.step} answers" if run.progress is not None else "done"


def _display_path(folder: Path) -> str:
    return os.path.relpath(folder, folder.parents[2])
