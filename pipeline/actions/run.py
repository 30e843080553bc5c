"""`run`: all stages of one project on one host, under a lock, then the outcome and the report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.actions.heal import run_and_heal
from pipeline.actions.session import exclusive_lock, host_session, refresh_view
from pipeline.hosts.pending import PendingHost
from pipeline.hosts.pull import pull_run
from pipeline.judgements.job import stopped_as_warnings
from pipeline.loading import LazyModule
from pipeline.messages.errors import findings_of
from pipeline.messages.listener import Listener
from pipeline.messages.outcome import JobOutcome, Outcome, StageOutcome, StageState, job_outcome
from pipeline.records.last_seen import job_last_seen, note_seen
from pipeline.records.runs import RunNote, artifacts_in, read_note, write_note
from pipeline.report.compose import jobs_of, report_of
from pipeline.report.evidence import read_evidence, write_evidence
from pipeline.runs.run_id import folder_of, name_of, run_of
from pipeline.runs.secrets import require_secrets
from pipeline.runs.selection import Selection
from pipeline.runs.start import note_of
from pipeline.runs.view import View
from pipeline.stages.order import STAGES
from pipeline.stages.runner import RunResult
from pipeline.stages.stage import Context, Phase, RunOptions
from remote.errors import HalfstepError, Interrupted, RemoteFault
from remote.host import Host
from remote.link.prompter import Prompter
from remote.operations.jobs import adopt_if_orphaned, list_jobs, start_job
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState, RunSurvey, StartAnswer
from remote.protocol.shell import shell_command

if TYPE_CHECKING:
    from pipeline.report import saved
    from pipeline.runs import laptop_paths
else:
    laptop_paths = LazyModule("pipeline.runs.laptop_paths")
    saved = LazyModule("pipeline.report.saved")

BEFORE_THE_COMMAND = ("sync", "environment", "fix")


def run_project(
    selection: Selection,
    listener: Listener,
    options: RunOptions,
    pending: PendingHost | None,
    *,
    prompter: Prompter | None = None,
    start: Callable[[Host, StartRequest], StartAnswer] = start_job,
) -> Outcome:
    """Run all stages, and return the outcome.

    `pending` is a connection that is already being opened. If the command has several runs, `options.phase` selects the
    stages to run now. `start` starts the job on the host.
    """
    listener.stage_started("connect")
    with run_session(selection, listener, options, pending, prompter) as context:
        context.start = start
        listener.heading(selection.title)
        for cure in context.view.cures:
            listener.note(f"cure of an earlier failure: {cure.words}")
        if options.resume and run_of(context.view) is None:
            raise no_such_run(selection.host.name, options.resume)
        if adopt_if_orphaned(context.host, context.view.layout.key, run_of(context.view)):
            refresh_view(context)
        context.options = until_training(context)
        ran = run_and_heal(context, STAGES, record_of(context.view))
        if ran.acted:
            keep_evidence(context)
            collect_results(context, ran)
        outcome = outcome_of(context, ran)
        listener.curve("loss", losses_of(outcome.job))
    if not ran.acted and ran.exit_code is ExitCode.OK and context.options.until == options.until:
        listener.note("nothing to do")
    return outcome


@contextlib.contextmanager
def run_session(
    selection: Selection,
    listener: Listener,
    options: RunOptions,
    pending: PendingHost | None,
    prompter: Prompter | None,
) -> Iterator[Context]:
    """Yield a context for running stages, under the lock of config and host.

    This process is written into the lock file when the first stage starts.
    """
    doing = f"run {selection.loaded.name} on {selection.host.name}"
    with (
        exclusive_lock(selection, doing, prompter=prompter, sign=False) as lock,
        host_session(selection, listener, options, prompter=prompter, pending=pending) as context,
    ):

        def before_acting(to_do: tuple[str, ...]) -> None:
            if runs_the_command(context, to_do):
                require_secrets(selection.host.config, selection.loaded.config)
                if "verify" in to_do:
                    laptop_paths.require_paths(context.host, context.view)
            lock.sign()

        def on_job(context: Context) -> None:
            lock.sign(name_of(context.view))
            report_job(context)

        context.before_acting, context.on_job = before_acting, on_job
        view = context.view
        context.evidence = read_evidence(view.records.evidence(view.host.name, view.loaded.record))
        yield context


def record_of(view: View) -> Path:
    """Return the file of the stage checkpoints."""
    return view.records.checkpoints(view.host.name, view.loaded.record)


def keep_evidence(context: Context) -> None:
    """Store the evidence of the stages for the report."""
    view = context.view
    write_evidence(view.records.evidence(view.host.name, view.loaded.record), context.evidence)


def until_training(context: Context) -> RunOptions:
    """Return the options. In the phase PREPARE, limit them to the stages up to `verify`, the stage before the job.

    They are not limited if the job is running or has succeeded, unless `force` repeats a stage.
    """
    options, run = context.options, run_of(context.view)
    started = run is not None and run.state in (JobState.RUNNING, JobState.SUCCEEDED) and not options.force
    includes_training = options.until in ("", "train", "logs") and options.force != "logs"
    return (
        replace(options, until="verify")
        if options.phase is Phase.PREPARE and includes_training and not started
        else options
    )


def no_such_run(host: str, run: str) -> RemoteFault:
    """Return the error for a resume of a run that the host does not have."""
    message = f"{host} has no run {run} any more"
    return RemoteFault(message, kind="no-run", where=host, hint="pipeline run", exit_code=ExitCode.JOB_LOST)


def runs_the_command(context: Context, to_do: tuple[str, ...]) -> bool:
    """Return True if a stage of `to_do` will run the project's command, for a proof or as a job."""
    if context.options.until in BEFORE_THE_COMMAND:
        return False
    run = run_of(context.view)
    continues = run is not None and run.state in (JobState.RUNNING, JobState.SUCCEEDED) and not context.options.force
    return not set(to_do) <= ({"train", "logs"} if continues else {"logs"})


def collect_results(context: Context, ran: RunResult) -> None:
    """Download the logs of a failed training and write the report; Ctrl-C skips the rest.

    A command that was refused changed nothing, so the report of the run is kept.
    """
    if ran.exit_code in (ExitCode.INTERRUPTED, ExitCode.USAGE, ExitCode.BUSY):
        return
    try:
        download_failed_run(context, ran)
        report(context, ran)
    except KeyboardInterrupt:
        ran.exit_code = ExitCode.INTERRUPTED
        ran.findings.extend(findings_of(Interrupted("interrupted", hint="pipeline run")))


def download_failed_run(context: Context, ran: RunResult) -> None:
    """Download the event files and the output of a failed training."""
    run = run_of(context.view)
    ended = (StageState.FAILED, StageState.STOPPED)
    failed = any(stage.name == "train" and stage.state in ended for stage in ran.stages)
    if run is None or not failed:
        return
    view = context.view
    try:
        pulled = pull_run(context.host, view.layout.key, run, folder_of(view), weights=False, listener=context.listener)
        ran.findings.extend(pulled.findings)
    except HalfstepError as error:
        context.listener.note(
            f"the logs were not downloaded: {error.message} ({shell_command('pipeline pull {}', name_of(view))})"
        )


def report(context: Context, ran: RunResult) -> None:
    """Write the report of the run, if the host has the run."""
    run = run_of(context.view)
    if run is not None and run.state is not JobState.ABSENT:
        note_seen(folder_of(context.view), run)
        write_report(context, run, ran.stages, ran.findings)


def report_job(context: Context) -> None:
    """Write the report of the run when its job has started or is already running."""
    view = context.view
    note = read_note(folder_of(view))
    if note is not None:
        known = run_of(view) or RunSurvey(note.run, note.config, "", note.job, note.state, created_unix=time.time())
        if known.job != note.job:
            known = replace(
                known, job=note.job, state=note.state, started=None, result=None, progress=None, elapsed_s=None
            )
        write_report(context, known, [*context.stages, StageOutcome("train", StageState.RUNNING)], ())


def write_report(context: Context, run: RunSurvey, stages: Sequence[StageOutcome], findings: Sequence[Finding]) -> None:
    """Write the report of a run."""
    jobs = jobs_of(run, earlier_jobs(context, run))
    page = report_of(context.view, run, jobs, context.evidence, tuple(stages), tuple(findings))
    saved.save_report(folder_of(context.view), page)


def earlier_jobs(context: Context, run: RunSurvey) -> tuple[StartAnswer, ...]:
    """Return the jobs before the newest one, or () if the host cannot be queried."""
    if run.job < 2:
        return ()
    try:
        return list_jobs(context.host, context.view.layout.key, run.run)
    except HalfstepError:
        return ()


def outcome_of(context: Context, ran: RunResult) -> Outcome:
    """Return the outcome of running the stages."""
    view = context.view
    run, interrupted = run_of(view), run_after_interrupt(context, ran)
    if run is not None and interrupted is None:
        if read_note(folder_of(view)) is None:
            write_note(view.records, note_of(view, run.run))
        note_seen(folder_of(view), run)
    job: JobOutcome | None = job_outcome(run) if run is not None else JobOutcome(JobState.ABSENT)
    if interrupted is not None:
        job = job_last_seen(interrupted, time.time()) if interrupted.seen_unix else None
    return Outcome(
        "run",
        ran.exit_code,
        host=view.host.name,
        config=view.loaded.name,
        run=name_of(view) if run is not None or interrupted is not None else "",
        stages=tuple(ran.stages),
        findings=stopped_as_warnings(tuple(ran.findings)),
        job=job,
        artifacts=artifacts_in(folder_of(view)),
        more={"cures": [cure.name for cure in view.cures]} if view.cures else {},
    )


def run_after_interrupt(context: Context, ran: RunResult) -> RunNote | None:
    """Return the record of the run if Ctrl-C interrupted the wait for its job, else None.

    After Ctrl-C the view is outdated.
    """
    trained = any(stage.name == "train" and stage.state is not StageState.PENDING for stage in ran.stages)
    if ran.exit_code is not ExitCode.INTERRUPTED or not trained:
        return None
    return read_note(folder_of(context.view))


def losses_of(job: JobOutcome | None) -> list[float]:
    """Return the losses of the whole run. The first and the last value are those that all commands show."""
    if job is None or job.loss is None:
        return []
    if job.first_loss is None or len(job.losses) < 2:
        return [*job.losses[:-1], job.loss]
    return [job.first_loss, *job.losses[1:-1], job.loss]
