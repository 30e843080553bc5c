"""`pipeline run`: take a project through all stages; a second run finds nothing to do."""

from __future__ import annotations

from dataclasses import replace

from pipeline.actions.run import run_project
from pipeline.hosts.pending import PendingHost
from pipeline.records.layout import Records
from pipeline.records.runs import find_note
from pipeline.show.prompts import prompter_for
from pipeline.show.screen import Screen
from pipeline.stages.order import STAGE_NAMES
from pipeline.stages.stage import RunOptions
from pipeline.work.selection import Selection
from remote.errors import BadUsage


def run(
    selection: Selection,
    pending: PendingHost,
    until: str = "",
    force: str = "",
    resume: str = "",
    detach: bool = False,
    no_heal: bool = False,
    yes: bool = False,
    as_json: bool = False,
) -> int:
    """Run the stages sync, environment, fix, verify, train and logs."""
    screen = Screen(as_json=as_json)
    if until and force and STAGE_NAMES.index(until) < STAGE_NAMES.index(force):
        raise BadUsage(f"--until {until} ends before --force {force}: nothing would be forced", where="--until")
    if resume and force:
        raise BadUsage(
            "--force starts a new run and --resume goes on with an old one: use one of them", where="--resume"
        )
    options = RunOptions(until, force, detach, not no_heal, resumed_run(selection, resume) if resume else "")
    with screen:
        outcome = run_project(selection, screen, options, pending, prompter=prompter_for(screen, yes=yes))
    screen.closing(replace(outcome, given=selection.given))
    return outcome.exit_code


def resumed_run(selection: Selection, name: str) -> str:
    """Return the id of the run to resume. Raises BadUsage if it is of another config or host."""
    note = find_note(Records(selection.loaded.root), name)
    host, config = selection.host.name, selection.loaded.name
    if (note.host, note.config) != (host, config):
        words = f"{note.name} is a run of {note.config} on {note.host}, not of {config} on {host}"
        raise BadUsage(words, where="--resume", hint=f"pipeline run --resume {note.name}")
    return note.run
