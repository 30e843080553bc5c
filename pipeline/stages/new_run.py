"""Checks before a job starts: report the inputs that require a new run, and refuse an invalid `--resume`."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.records.runs import read_note
from pipeline.runs.new_run import describe_new_run
from pipeline.runs.run_id import name_of, run_id, run_of, work_fingerprint
from pipeline.runs.view import View
from pipeline.stages.stage import Context, Phase
from remote.errors import BadUsage, Busy
from remote.protocol.jobs import JobState
from remote.protocol.shell import shell_command


def announce_new_run(context: Context) -> None:
    """Before a run is proved and started, report once which inputs differ from the last run.

    For a run that resumes with other inputs, report what happens to its code. Raises the errors of `refuse_to_resume`.
    """
    view = context.view
    refuse_to_resume(view)
    if view.resume and not context.announced and has_other_inputs(view):
        context.announced = True
        context.listener.note(
            f"{name_of(view)} resumes with changed inputs: its next job gets a new code/ on {view.host.name}, with the "
            "files that its earlier jobs created there"
        )
    if run_of(view) is None and not context.announced and not view.loaded.varied:
        context.announced = True
        for line in describe_new_run(view, run_id(view)):
            context.listener.note(line)


def announce_missing_run(context: Context) -> None:
    """Before a run is started, report that its files are not on the host, although it had trained there before."""
    view = context.view
    before = read_note(view.records.run(run_id(view), view.host.name))
    if run_of(view) is None and before is not None and before.own and before.step:
        context.listener.note(
            f"{before.name} had reached step {before.step}, but its files are not on {view.host.name} any more: "
            "it starts at step 0"
        )


def warn_of_other_runs(context: Context) -> None:
    """Report the project's runs that train on the host now, before another one is proved or started at the same time.

    A run that only uses other cards is left out. Slurm, and a command with several runs, queue their jobs.
    """
    view = context.view
    if context.options.phase is not Phase.ALL or view.host.config.scheduler is not None or view.group is not None:
        return
    for run in view.survey.runs:
        note = read_note(view.records.run(run.run, view.host.name))
        cards = note.host_config.get("gpus") if note is not None else None
        if run.state is not JobState.RUNNING or run.run == run_id(view) or are_disjoint(cards, view.host.config.gpus):
            continue
        name = view.records.run_name(run.run, view.host.name)
        state = "queued" if run.waits else "training"
        words = f"warning: {name} is {state} on {view.host.name}; a second training shares its memory and its cards"
        for line in (words, f"  pipeline status {name}", f"  pipeline stop {name}"):
            context.listener.note(line)


def are_disjoint(one: Sequence[int] | None, other: Sequence[int] | None) -> bool:
    """Return True if both runs name their cards, and no card is in both lists. None means all cards."""
    return bool(one) and bool(other) and not set(one or ()) & set(other or ())


def refuse_to_resume(view: View) -> None:
    """Raise BadUsage if the run to resume has succeeded with other inputs.

    Raise Busy if the run is running with other inputs.
    """
    run = run_of(view)
    if run is None or not view.resume or not has_other_inputs(view):
        return
    name = name_of(view)
    if run.state is JobState.SUCCEEDED:
        message = f"{name} has succeeded with other inputs; there is nothing to resume"
        raise BadUsage(message, where="--resume", hint="pipeline run")
    if run.state is JobState.RUNNING:
        message = f"{name} is running with other inputs; stop the run, then resume it with the current inputs"
        raise Busy(message, where=view.host.name, hint=shell_command("pipeline stop {}", name))


def has_other_inputs(view: View) -> bool:
    """Return True if the newest job of the run has other inputs than the current ones."""
    run = run_of(view)
    return run is not None and (run.newest_fingerprint or run.fingerprint) != work_fingerprint(view)
