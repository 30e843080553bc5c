"""A small real project, and a host on which its run has succeeded, as input of the stages."""

from __future__ import annotations

from pathlib import Path

from pipeline.config.hosts import load_host
from pipeline.config.load import load_config
from pipeline.records.layout import Records
from pipeline.runs.run_id import run_id
from pipeline.runs.view import View
from remote.project.scan import scan_project
from remote.protocol.jobs import JobResult, JobState, Progress, RunSurvey
from remote.protocol.machine import NO_DRIVER, Disk, Driver, Interpreter, Machine, Torch
from remote.protocol.survey import Survey
from remote.protocol.tree import TreeSurvey


def survey_of(tree: TreeSurvey, *runs: RunSurvey) -> Survey:
    """Return a machine without a card, with torch."""
    return Survey(
        payload="p",
        machine=Machine("box", "m", "Linux", 1 << 30, 0.0),
        interpreter=Interpreter("/usr/bin/python3", version=(3, 11, 2), torch=Torch("2.13.0")),
        driver=Driver(error=NO_DRIVER),
        gpus=(),
        disk=Disk("/home/me", "/", 10**12, 10**12, 10**6),
        tree=tree,
        runs=runs,
    )


def view_of(root: Path, state: JobState | None = JobState.SUCCEEDED) -> View:
    """The project at `root` on a host that has its files, with its run in that state (None: never started)."""
    (root / "configs").mkdir(parents=True, exist_ok=True)
    (root / "train.py").write_text("print('training')\n")
    (root / "configs" / "plain.yaml").write_text("project: .\ncommand: [python, train.py]\n")
    scan = scan_project(root)
    digest = scan.manifest.source_digest()
    tree = TreeSurvey(True, digest, digest, len(scan.manifest.rows))
    view = View(
        load_config("plain", root), load_host("local", root), Records(root), scan, survey_of(tree), "/home/me/halfstep"
    )
    return view if state is None else view.with_survey(survey_of(tree, run_in(view, state)))


def run_in(view: View, state: JobState) -> RunSurvey:
    """Return the view's run, in that state."""
    ended = {JobState.SUCCEEDED: JobResult(0, ended_unix=90.0), JobState.FAILED: JobResult(1, ended_unix=90.0)}
    return RunSurvey(run_id(view), "plain", "f", 1, state, None, ended.get(state), Progress(60, 60, 0.3))
