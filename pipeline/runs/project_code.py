"""Judge the project's code and the command of the training without running them."""

from __future__ import annotations

from pipeline.judgements.static import judge_static
from pipeline.judgements.unhooked_launchers import KEY, judge_blind_proof, judge_launchers
from pipeline.runs.fixes import tree_as_fixed
from pipeline.runs.launch import launch_of
from pipeline.runs.launcher import nodes_of
from pipeline.runs.view import View
from remote.protocol.findings import Report
from remote.protocol.proof import ProofReport


def judge_code(view: View) -> Report:
    """Return the findings of the code as the fixers leave it, and of the launchers that the command starts."""
    tree, command = tree_as_fixed(view), launch_of(view).command
    launchers = judge_launchers(tree, command) if _signs(view) and command else Report()
    return judge_static(tree, view.precision).plus(launchers)


def judge_unseen(view: View, proof: ProofReport) -> Report:
    """Return the findings of the command after a proof that saw no optimizer step."""
    command = launch_of(view).command
    if not command or not _signs(view) or proof.hooked_torchrun:
        return Report()
    return judge_blind_proof(tree_as_fixed(view), command, saw_torch=proof.hooked_torch)


def _signs(view: View) -> bool:
    """Return True if the processes of the training must sign what they send each other."""
    return view.group is None and nodes_of(view) == 1 and launch_of(view).env.get(KEY) != ""
