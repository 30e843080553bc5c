"""`run` with several configs or values: one run for each. The host executes their jobs one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pipeline.actions.held_jobs import HeldJobs
from pipeline.actions.run import run_project
from pipeline.hosts.pending import PendingHost
from pipeline.messages.errors import outcome_of_error
from pipeline.messages.listener import Listener
from pipeline.messages.outcome import Outcome, StageState
from pipeline.records.files import write_atomic
from pipeline.records.last_seen import note_job
from pipeline.records.layout import Records
from pipeline.runs.selection import Selection
from pipeline.stages.stage import Phase, RunOptions
from remote.errors import HalfstepError
from remote.link.prompter import Prompter
from remote.operations.jobs import start_job
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobState

UNREACHABLE = (ExitCode.CONNECT, ExitCode.AUTH, ExitCode.HOST_KEY)
REPEATABLE = (ExitCode.PREEMPTED, ExitCode.BUSY, ExitCode.TEMPORARY)
"""Exit codes after which the same command continues the runs."""


def run_several(
    selections: Sequence[Selection],
    listener: Listener,
    options: RunOptions,
    pending: PendingHost,
    *,
    prompter: Prompter | None = None,
) -> tuple[Outcome, ...]:
    """Verify every run, then queue all jobs on the host, then follow the jobs.

    A run that fails does not stop the other runs. Raises an error if the host is unreachable.
    """
    connections = iter([pending])
    outcomes = [
        Outcome("run", host=one.host.name, config=one.loaded.name, given=one.given, varied=one.loaded.varied)
        for one in selections
    ]
    held = HeldJobs()
    for phase, is_due in PHASES:
        for at, selection in enumerate(selections):
            if not is_due(outcomes[at], options):
                continue
            if phase is Phase.PREPARE and at:
                copy_checkpoints(selections[at - 1], selection)
            start = held.start if phase is Phase.START else start_job
            phase_options, connection = options_for(phase, options), next(connections, None)
            try:
                now = run_project(selection, listener, phase_options, connection, prompter=prompter, start=start)
            except HalfstepError as error:
                if phase is Phase.PREPARE and at == 0 and error.exit_code in UNREACHABLE:
                    raise
                now = outcome_of_error("run", error)
                listener.note(error.message)
            outcomes[at] = combined_outcome(now, outcomes[at])
            if now.exit_code is ExitCode.INTERRUPTED:
                return tuple(outcomes)
        if phase is Phase.START:
            outcomes = submit(held, selections, outcomes, prompter)
    return tuple(outcomes)


def submit(
    held: HeldJobs, selections: Sequence[Selection], outcomes: list[Outcome], prompter: Prompter | None
) -> list[Outcome]:
    """Submit the prepared jobs. If the submission fails, every run whose job was prepared has failed."""
    prepared = [outcome.ok and outcome.run.partition("@")[0] in held.runs for outcome in outcomes]
    try:
        held.submit(selections[0].host, prompter)
    except HalfstepError as error:
        failed = outcome_of_error("run", error)
        pairs = zip(outcomes, prepared, strict=True)
        return [combined_outcome(failed, one) if was_prepared else one for one, was_prepared in pairs]
    for selection, outcome, was_prepared in zip(selections, outcomes, prepared, strict=True):
        if was_prepared:
            note_job(Records(selection.loaded.root).folder_named(outcome.run), JobState.RUNNING)
    return outcomes


def copy_checkpoints(known: Selection, new: Selection) -> None:
    """Copy the stage checkpoints of one run to another, so that stages with the same inputs are skipped."""
    first, second = (Records(one.loaded.root).checkpoints(one.host.name, one.loaded.record) for one in (known, new))
    if first.is_file() and not second.exists():
        write_atomic(second, first.read_bytes())


def options_for(phase: Phase, options: RunOptions) -> RunOptions:
    """Return the options of a run in this phase.

    `force` applies in one phase only, and only FOLLOW waits for the job.
    """
    if phase is Phase.PREPARE:
        return replace(options, phase=phase, detach=True)
    force = options.force if options.force in ("", "logs") else "train"
    return replace(options, phase=phase, detach=phase is Phase.START, force=force if phase is Phase.START else "")


def is_prepared(outcome: Outcome, options: RunOptions) -> bool:
    """Return True if all stages before the training are done, and the options include the training."""
    last = outcome.stages[-1].name if outcome.stages else ""
    return outcome.ok and last == "verify" and options.until != "verify"


def is_training(outcome: Outcome, options: RunOptions) -> bool:
    """Return True if the run's job is queued or running, and the command waits for the job."""
    running = any(stage.name == "train" and stage.state is StageState.RUNNING for stage in outcome.stages)
    return outcome.ok and running and not options.detach


PHASES: tuple[tuple[Phase, Callable[[Outcome, RunOptions], bool]], ...] = (
    (Phase.PREPARE, lambda outcome, options: True),
    (Phase.START, is_prepared),
    (Phase.FOLLOW, is_training),
)


def combined_outcome(now: Outcome, before: Outcome) -> Outcome:
    """Return the newer outcome of a run.

    Host, config and overrides, and a missing run or job, are copied from the older outcome.
    """
    run, job = now.run or before.run, now.job or before.job
    return replace(
        now, host=before.host, config=before.config, given=before.given, varied=before.varied, run=run, job=job
    )


def worst_exit_code(outcomes: Sequence[Outcome]) -> ExitCode:
    """Return 130 if a run was interrupted, else the exit code of a failed run.

    The first exit code outside REPEATABLE takes precedence.
    """
    codes = [outcome.exit_code for outcome in outcomes if not outcome.ok]
    if ExitCode.INTERRUPTED in codes:
        return ExitCode.INTERRUPTED
    return next((code for code in codes if code not in REPEATABLE), codes[0] if codes else ExitCode.OK)
