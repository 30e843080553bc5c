"""`run`: all stages of one project on one host, under a lock, then the outcome and the report."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pipeline.actions.heal import run_and_heal
from pipeline.actions.session import exclusive_lock, host_session, refresh_view
from pipeline.hosts.pending import PendingHost
from pipeline.hosts.pull import pull_run
from pipeline.messages.errors import findings_of
from pipeline.messages.listener import Listener
from pipeline.messages.outcome import JobOutcome, Outcome, StageState, job_outcome
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, artifacts_in, job_last_seen, note_seen, read_note, write_note
from pipeline.report.compose import jobs_of, report_of
from pipeline.report.curves import gather_curves
from pipeline.report.evidence import read_evidence, write_evidence
from pipeline.report.saved import save_report
from pipeline.stages.order import STAGES
from pipeline.stages.runner import RunResult
from pipeline.stages.stage import Context, RunOptions
from pipeline.work.run_id import folder_of, name_of, run_of
from pipeline.work.secrets import require_secrets
from pipeline.work.selection import Selection
from pipeline.work.start import note_of
from remote.errors import HalfstepError, Interrupted, RemoteFault
from remote.link.prompter import Prompter
from remote.operations.jobs import adopt_if_orphaned, list_jobs
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobState, RunSurvey, StartAnswer
from remote.pull.live import mirrored_scalars

BEFORE_THE_COMMAND = ("sync", "environment", "fix")
LOSS_TAGS = ("train/loss", "loss", "Loss/train", "train_loss")


def run_project(
    selection: Selection,
    listener: Listener,
    options: RunOptions,
    pending: PendingHost,
    *,
    prompter: Prompter | None = None,
) -> Outcome:
    """Run all stages; the outcome says which stage failed, if any, and what to type next."""
    records = Records(selection.loaded.root)
    listener.stage_started("connect")
    with (
        exclusive_lock(selection, f"run {selection.loaded.name} on {selection.host.name}", sign=False) as lock,
        host_session(selection, listener, options, prompter=prompter, pending=pending) as context,
    ):

        def before_acting(left: tuple[str, ...]) -> None:
            if runs_the_command(context, left):
                require_secrets(selection.host.config, selection.loaded.config)
            lock.sign()

        context.before_acting = before_acting
        listener.heading(f"{selection.loaded.name} on {selection.host.name}")
        for cure in context.view.cures:
            listener.note(f"still applied: {cure.words}")
        record = records.checkpoints(selection.host.name, selection.loaded.name)
        kept = records.evidence(selection.host.name, selection.loaded.name)
        context.evidence = read_evidence(kept)
        if options.resume and run_of(context.view) is None:
            raise no_such_run(selection.host.name, options.resume)
        if adopt_if_orphaned(context.host, context.view.layout.key, run_of(context.view)):
            refresh_view(context)
        ran = run_and_heal(context, STAGES, record)
        if ran.acted:
            write_evidence(kept, context.evidence)
            sum_up(context, ran)
        outcome = outcome_of(context, ran)
        listener.curve("loss", loss_in(folder_of(context.view)) if outcome.run else [])
    if not ran.acted and ran.exit_code is ExitCode.OK:
        listener.note("nothing to do")
    return outcome


def no_such_run(host: str, run: str) -> RemoteFault:
    """Return the error that the host does not have the run to resume."""
    words = f"{host} has no run {run} any more"
    return RemoteFault(words, kind="no-run", where=host, hint="pipeline run", exit_code=ExitCode.JOB_LOST)


def runs_the_command(context: Context, left: tuple[str, ...]) -> bool:
    """Return True if a stage of `left` will run the project's command, for a proof or as a job."""
    if context.options.until in BEFORE_THE_COMMAND:
        return False
    run = run_of(context.view)
    goes_on = run is not None and run.state in (JobState.RUNNING, JobState.SUCCEEDED) and not context.options.force
    return not set(left) <= ({"train", "logs"} if goes_on else {"logs"})


def sum_up(context: Context, ran: RunResult) -> None:
    """Download the logs of a failed training and write the report; Ctrl-C skips the rest."""
    if ran.exit_code is ExitCode.INTERRUPTED:
        return
    try:
        download_failed_run(context, ran)
        report(context, ran)
    except KeyboardInterrupt:
        ran.exit_code = ExitCode.INTERRUPTED
        ran.findings.extend(findings_of(Interrupted("interrupted", hint="pipeline run")))


def download_failed_run(context: Context, ran: RunResult) -> None:
    """Download the curves and the output of a failed training, as far as the host provides them."""
    run = run_of(context.view)
    failed = any(stage.name == "train" and stage.state is StageState.FAILED for stage in ran.stages)
    if run is None or not failed:
        return
    view = context.view
    try:
        pulled = pull_run(context.host, view.layout.key, run, folder_of(view), weights=False, listener=context.listener)
        ran.findings.extend(pulled.findings)
    except HalfstepError as error:
        context.listener.note(f"its logs were not downloaded: {error.message} (pipeline pull {name_of(view)})")


def report(context: Context, ran: RunResult) -> None:
    """Write the report of the run, if there is one by now."""
    view = context.view
    run = run_of(view)
    if run is not None and run.state is not JobState.ABSENT:
        jobs = jobs_of(run, earlier_jobs(context, run))
        page = report_of(view, run, jobs, context.evidence, tuple(ran.stages), tuple(ran.findings))
        save_report(folder_of(view), page)


def earlier_jobs(context: Context, run: RunSurvey) -> tuple[StartAnswer, ...]:
    """Return the jobs before the newest; empty if there are none or the host does not answer."""
    if run.job < 2:
        return ()
    try:
        return list_jobs(context.host, context.view.layout.key, run.run)
    except HalfstepError:
        return ()


def outcome_of(context: Context, ran: RunResult) -> Outcome:
    """Return the outcome of running the stages."""
    view = context.view
    run, left = run_of(view), run_after_interrupt(context, ran)
    if run is not None and left is None:
        if read_note(folder_of(view)) is None:
            write_note(view.records, replace(note_of(view, run.run), created_unix=run.created_unix or time.time()))
        note_seen(folder_of(view), run)
    job: JobOutcome | None = job_outcome(run) if run is not None else JobOutcome(JobState.ABSENT)
    if left is not None:
        job = job_last_seen(left, time.time()) if left.seen_unix else None
    return Outcome(
        "run",
        ran.exit_code,
        host=view.host.name,
        config=view.loaded.name,
        run=name_of(view) if run is not None or left is not None else "",
        stages=tuple(ran.stages),
        findings=tuple(ran.findings),
        job=job,
        artifacts=artifacts_in(folder_of(view)),
        more={"cures": [cure.name for cure in view.cures]} if view.cures else {},
    )


def run_after_interrupt(context: Context, ran: RunResult) -> RunNote | None:
    """Return the record of the run if Ctrl-C interrupted the wait for its job, because the view is then out of date."""
    trained = any(stage.name == "train" and stage.state is not StageState.PENDING for stage in ran.stages)
    if ran.exit_code is not ExitCode.INTERRUPTED or not trained:
        return None
    return read_note(folder_of(context.view))


def loss_in(folder: Path) -> list[float]:
    """Return the training loss by step, from the local mirror."""
    curves = gather_curves(one for one in mirrored_scalars(folder) if one.tag in LOSS_TAGS)
    longest = max(curves, key=lambda curve: len(curve.points), default=None)
    return [value for _, value in longest.points] if longest is not None else []
