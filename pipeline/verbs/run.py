"""`pipeline run`: run all stages of a project; stages that are already done are skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline.actions.run import run_project
from pipeline.actions.run_group import run_on_all
from pipeline.actions.several import run_several, worst_exit_code
from pipeline.hosts.pending import PendingHost
from pipeline.messages.as_json import rows_to_json
from pipeline.messages.outcome import JobOutcome, Outcome
from pipeline.records.find_run import find_note
from pipeline.records.layout import Records
from pipeline.runs.resumed import require_choices_again
from pipeline.runs.selection import Selection
from pipeline.show.prompts import prompter_for
from pipeline.show.screen import Screen
from pipeline.stages.order import STAGE_NAMES
from pipeline.stages.stage import RunOptions
from remote.errors import BadUsage
from remote.protocol.findings import Severity
from remote.protocol.jobs import JobState
from remote.protocol.shell import shell_command

HEADINGS = ("run", "config", "set", "state", "step", "loss", "best", "exit")


def run(
    selection: Selection,
    pending: PendingHost,
    others: Sequence[tuple[Selection, PendingHost]] = (),
    more: Sequence[Selection] = (),
    until: str = "",
    force: str = "",
    resume: str = "",
    detach: bool = False,
    no_heal: bool = False,
    yes: bool = False,
    as_json: bool = False,
) -> int:
    """Run the stages sync, environment, fix, verify, train and logs.

    `others` are the hosts that train together with the selected host; `more` are the further runs of the command.
    """
    screen = Screen(as_json=as_json)
    if until and force and STAGE_NAMES.index(until) < STAGE_NAMES.index(force):
        raise BadUsage(f"--until {until} ends before {force}, so --force {force} would redo nothing", where="--until")
    if resume and force:
        raise BadUsage("--force starts a new run and --resume continues an old run: use one of them", where="--resume")
    options = RunOptions(until, force, detach, not no_heal, resumed_run(selection, resume) if resume else "")
    prompter = prompter_for(screen, yes=yes)
    with screen:
        if resume:
            every = [selection, *(other for other, _ in others)]
            require_choices_again(resume, every, Records(selection.loaded.root), prompter)
        if more:
            outcomes = run_several([selection, *more], screen, options, pending, prompter=prompter)
        elif others:
            outcomes = (run_on_all([(selection, pending), *others], screen, options, prompter=prompter),)
        else:
            outcomes = (run_project(selection, screen, options, pending, prompter=prompter),)
    if more:
        return show_several(outcomes, screen)
    outcome = outcomes[0]
    screen.closing(replace(outcome, given=selection.given))
    return outcome.exit_code


def show_several(outcomes: Sequence[Outcome], screen: Screen) -> int:
    """Show the outcome of each run, and return the exit code of the command."""
    summary = Outcome("run", worst_exit_code(outcomes), host=outcomes[0].host, more={"runs": rows_to_json(outcomes)})
    for outcome in () if screen.as_json else outcomes:
        if any(finding.severity is not Severity.INFO for finding in outcome.findings):
            screen.heading(f"{outcome.config} {' '.join(outcome.varied)}".strip())
        screen.closing(replace(outcome, artifacts={}))
    if not screen.as_json:
        screen.table(HEADINGS, [row_of(outcome) for outcome in outcomes], optional=("loss", "step"))
    screen.closing(summary)
    return summary.exit_code


def row_of(outcome: Outcome) -> tuple[str, ...]:
    """Return the table row of a run: its name and values, its progress, its losses and its exit code."""
    job = outcome.job or JobOutcome(JobState.ABSENT)
    return (
        outcome.run or "not started",
        outcome.config,
        " ".join(outcome.varied),
        job.shown_state,
        f"{job.step}/{job.steps}" if job.steps else str(job.step or ""),
        f"{job.loss:.4g}" if job.loss is not None else "",
        f"{job.best_loss:.4g}" if job.best_loss is not None else "",
        str(int(outcome.exit_code)),
    )


def resumed_run(selection: Selection, name: str) -> str:
    """Return the id of the run to resume. Raises BadUsage if the run belongs to another config or host."""
    note = find_note(Records(selection.loaded.root), name, trained=True)
    host, config = selection.host.name, selection.loaded.name
    if (note.host, note.config) != (host, config):
        message = f"{note.name} is a run of {note.config} on {note.host}, not of {config} on {host}"
        raise BadUsage(message, where="--resume", hint=shell_command("pipeline run --resume {}", note.name))
    return note.run
