"""`run` with several configs or values: one run for each. The host executes their jobs one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pipeline.actions.held_jobs import HeldJobs
from pipeline.actions.run import run_project
from pipeline.config.hosts import LoadedHost
from pipeline.hosts.address import address_of
from pipeline.hosts.pending import PendingHost
from pipeline.messages.errors import outcome_of_error
from pipeline.messages.listener import Listener
from pipeline.messages.outcome import Outcome, StageState
from pipeline.records.last_seen import note_job
from pipeline.records.layout import Records
from pipeline.records.stage_checkpoints import read_checkpoints, write_checkpoints
from pipeline.runs.selection import Selection
from pipeline.stages.stage import Phase, RunOptions
from remote.errors import HalfstepError
from remote.link.address import Address
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
            start = held.start_on(selection.host) if phase is Phase.START else start_job
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
    """Submit the prepared jobs of each host. If that fails, every run has failed whose job was prepared there."""
    faults: dict[Address, Outcome | None] = {}
    submitted = []
    for selection, outcome in zip(selections, outcomes, strict=True):
        host = selection.host
        if not (outcome.ok and outcome.run.partition("@")[0] in held.runs_on(host)):
            submitted.append(outcome)
            continue
        address = address_of(host)
        if address not in faults:
            faults[address] = failure_of(held, host, prompter)
        failed = faults[address]
        if failed is None:
            note_job(Records(selection.loaded.root).folder_named(outcome.run), JobState.RUNNING)
        submitted.append(as_queued(outcome) if failed is None else combined_outcome(failed, outcome))
    return submitted


def as_queued(outcome: Outcome) -> Outcome:
    """Return the outcome with the state of the job after its submission. Before it, the job was absent."""
    if outcome.job is None or outcome.job.state is not JobState.ABSENT:
        return outcome
    return replace(outcome, job=replace(outcome.job, state=JobState.RUNNING, waits="submitted to Slurm"))


def failure_of(held: HeldJobs, host: LoadedHost, prompter: Prompter | None) -> Outcome | None:
    """Submit the prepared jobs of the host. Return the failure, or None."""
    try:
        held.submit(host, prompter)
    except HalfstepError as error:
        return outcome_of_error("run", error)
    return None


def copy_checkpoints(known: Selection, new: Selection) -> None:
    """Copy the stage checkpoints of a run to another on the same host, so that unchanged stages are skipped."""
    if address_of(known.host) != address_of(new.host):
        return
    first, second = (Records(one.loaded.root).checkpoints(one.host.name, one.loaded.record) for one in (known, new))
    if first.exists() and not second.exists():
        write_checkpoints(second, read_checkpoints(first))


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
