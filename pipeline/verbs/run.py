"""`pipeline run`: the whole thing; run it again: nothing to do."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.actions.run import run_project
from pipeline.actions.session import load_selection
from pipeline.show.screen import Screen
from pipeline.stages.order import STAGE_NAMES
from pipeline.stages.stage import RunOptions
from remote.errors import BadUsage


def _stage(name: str, option: str) -> str:
    if name and name not in STAGE_NAMES:
        near = difflib.get_close_matches(name, STAGE_NAMES, n=1)
        words = f"there is no stage {name!r}: {', '.join(STAGE_NAMES)}"
        raise BadUsage(words, where=option, instead=(name, near[0]) if near else None)
    return name


def run(
    host: str,
    config: str,
    overrides: Sequence[str] = (),
    until: str = "",
    force: str = "",
    detach: bool = False,
    no_heal: bool = False,
    yes: bool = False,
    as_json: bool = False,
) -> int:
    """Take the project to the host through all stages: sync, environment, fix, verify, train, logs."""
    screen = Screen(as_json=as_json)
    if until and force and STAGE_NAMES.index(_stage(until, "--until")) < STAGE_NAMES.index(_stage(force, "--force")):
        raise BadUsage(f"--until {until} ends before --force {force}: nothing would be forced", where="--until")
    wishes = RunOptions(_stage(until, "--until"), _stage(force, "--force"), detach, not no_heal)
    named = load_selection(host, config, overrides, Path.cwd())
    with screen:
        outcome = run_project(named, screen, wishes, ask=None if as_json or yes else screen)
    screen.closing(replace(outcome, given=named.given))
    return outcome.exit_code
