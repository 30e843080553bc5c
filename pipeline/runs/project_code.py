"""Judge the project's code and the command of the training without running them."""

from __future__ import annotations

from pipeline.judgements.static import judge_static
from pipeline.judgements.unhooked_launchers import judge_launchers
from pipeline.runs.fixes import tree_as_fixed
from pipeline.runs.launch import launch_of
from pipeline.runs.launcher import nodes_of
from pipeline.runs.view import View
from remote.protocol.findings import Report

KEY = "HALFSTEP_KEY_FILE"


def judge_code(view: View) -> Report:
    """Return the findings of the code as the fixers leave it, and of the launchers that the command starts."""
    tree, launch = tree_as_fixed(view), launch_of(view)
    signs = view.group is None and nodes_of(view) == 1 and launch.env.get(KEY) != ""
    launchers = judge_launchers(tree, launch.command) if signs and launch.command else Report()
    return judge_static(tree, view.precision).plus(launchers)
