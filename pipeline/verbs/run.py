"""`pipeline run`: take a project through all stages; a second run finds nothing to do."""

from __future__ import annotations

from dataclasses import replace

from pipeline.actions.run import run_project
from pipeline.hosts.pending import PendingHost
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
    detach: bool = False,
    no_heal: bool = False,
    yes: bool = False,
    as_json: bool = False,
) -> int:
    """Run the stages sync, environment, fix, verify, train and logs."""
    screen = Screen(as_json=as_json)
    if until and force and STAGE_NAMES.index(until) < STAGE_NAMES.index(force):
        raise BadUsage(f"--until {until} ends before --force {force}: nothing would be forced", where="--until")
    options = RunOptions(until, force, detach, not no_heal)
    with screen:
        outcome = run_project(selection, screen, options, pending, prompter=None if as_json or yes else screen)
    screen.closing(replace(outcome, given=selection.given))
    return outcome.exit_code
