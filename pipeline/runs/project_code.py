"""Judge the project's code and the command of the training without running them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from fixers.frame.pins import pins_by_folder, project_pins
from fixers.setup.environment import is_requested, venv_of
from pipeline.judgements.notebook_code import judge_notebook_code
from pipeline.judgements.old_calls import judge_old_calls
from pipeline.judgements.removed_names import judge_removed
from pipeline.judgements.started import files_reached
from pipeline.judgements.static import judge_static
from pipeline.judgements.unhooked_launchers import KEY, judge_blind_proof, judge_launchers
from pipeline.runs.fixes import fixer_settings_of, tree_as_fixed, unparsable_start
from pipeline.runs.launch import launch_of
from pipeline.runs.launcher import nodes_of
from pipeline.runs.view import View
from remote.protocol.findings import Report
from remote.protocol.proof import ProofReport


def judge_code(view: View) -> Report:
    """Return the findings of the code as the fixers leave it, of its syntax, and of the launchers of the command."""
    tree, command = tree_as_fixed(view), launch_of(view).command
    launchers = judge_launchers(tree, command) if _signs(view) and command else Report()
    unparsable = Report(unparsable_start(view))
    return unparsable.plus(judge_old_code(view)).plus(judge_static(tree, view.precision)).plus(launchers)


def judge_old_code(view: View) -> Report:
    """Return warnings about code of a notebook, and about names and calls that the installed libraries reject."""
    command = view.config.command
    if command is None:
        return Report()
    paths = files_reached(view.scan, command)
    packages = _packages(view)
    removed = judge_removed(view.scan, paths, packages).plus(judge_old_calls(view.scan, paths, packages))
    return judge_notebook_code(view.scan, command, paths).plus(removed)


def _packages(view: View) -> Mapping[str, str]:
    """Return the versions of the packages with which the command will run.

    If a venv will be created, they are the newest versions that the project's pins allow.
    """
    interpreter, tree = view.survey.interpreter, str(PurePosixPath(view.workdir, view.layout.tree))
    if is_requested(fixer_settings_of(view).get("environment")) and venv_of(interpreter.path, tree) is None:
        return project_pins(pins_by_folder(view.scan))
    return interpreter.packages


def judge_unseen(view: View, proof: ProofReport) -> Report:
    """Return the findings of the command after a proof that saw no optimizer step."""
    command = launch_of(view).command
    if not command or not _signs(view) or proof.hooked_torchrun:
        return Report()
    return judge_blind_proof(tree_as_fixed(view), command, saw_torch=proof.hooked_torch)


def _signs(view: View) -> bool:
    """Return True if the processes of the training must sign what they send each other."""
    return view.group is None and nodes_of(view) == 1 and launch_of(view).env.get(KEY) != ""
