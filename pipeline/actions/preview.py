"""Compute the actions that `run` would take, for `verify` and `plan`, without changes outside a scratch folder."""

from __future__ import annotations

from dataclasses import replace

from fixers.frame.change import Plan
from fixers.plans.diff import render_diff
from pipeline.judgements.host import judge_host
from pipeline.judgements.job import newest_kept
from pipeline.messages.outcome import StageOutcome, StageState
from pipeline.records.stage_checkpoints import StageCheckpoints, read_checkpoints
from pipeline.runs.fixes import host_changes_of, plan_for, rewrites_left
from pipeline.runs.new_run import describe_new_run
from pipeline.runs.project_code import judge_code
from pipeline.runs.run_id import run_of
from pipeline.runs.trained_files import not_inputs
from pipeline.runs.view import View
from pipeline.stages.environment import need_of
from pipeline.stages.logs import Logs
from pipeline.stages.order import STAGES
from pipeline.stages.stage import Context, StageStatus, judge_status
from pipeline.stages.sync import data_report
from pipeline.stages.train import Train
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Report
from remote.protocol.jobs import JobState, RunSurvey
from remote.sync.agreed import fetch_host_manifest, known_host_manifest
from remote.sync.plan import SyncPlan, plan_sync

DEPEND_ON_FILES = ("verify", "train", "logs")


@dataclass(frozen=True)
class Preview:
    """The actions that `run` would take.

    `sync` lists the files to send, `fixes` all changes by fixers, and `remaining` the changes that the host does not
    have yet. `run` is the existing run that would be reattached to or resumed; it is None if a new run would start.
    `new_run` lists the reasons for a new run.
    """

    sync: SyncPlan
    fixes: Plan
    remaining: Plan
    stages: tuple[StageOutcome, ...]
    run: RunSurvey | None = None
    new_run: tuple[str, ...] = ()

    @property
    def diff(self) -> str:
        """The remaining changes of files and of the host, as a unified diff."""
        return render_diff(self.remaining)


def preview(context: Context) -> Preview:
    """Return the preview of all stages, without changes to the host."""
    view = context.view
    checkpoints = read_checkpoints(view.records.checkpoints(view.host.name, view.loaded.record))
    base = (
        known_host_manifest(context.host, view.scan, view.survey.tree)
        or fetch_host_manifest(context.host, view.scan)[0]
    )
    sync = plan_sync(view.scan, view.survey.tree, base)
    sync = replace(sync, report=sync.report.plus(data_report(view)))
    plan = plan_for(view, context.host)
    paths = {rewrite.path for rewrite in rewrites_left(plan, view)}
    changes = tuple(
        change for change in plan.changes if getattr(change, "path", "") in paths or change in host_changes_of(plan)
    )
    synced = as_synced(view, sync)
    files_change = bool(paths - set(not_inputs(view)))
    stages = preview_stages(view, checkpoints, files_change=files_change, synced=synced)
    run = None if files_change else run_of(synced)
    new_run = () if run is not None else describe_new_run(view)
    return Preview(sync, plan, Plan(plan.findings, changes), stages, run, new_run)


def as_synced(view: View, sync: SyncPlan) -> View:
    """Return the view after the sync.

    The host has the laptop's files, and keeps the fixers' rewrites of unchanged files.
    """
    tree, files = view.survey.tree, view.scan.manifest
    changed = {*sync.send, *sync.modes, *sync.delete}
    fixed = {path: row for path, row in tree.fixed.items() if path not in changed}
    installed = replace(files, rows={**files.rows, **fixed}).installed_digest()
    after_sync = replace(
        tree, exists=True, source_digest=files.source_digest(), installed_digest=installed, fixed=fixed
    )
    return view.with_survey(replace(view.survey, tree=after_sync))


def preview_stages(
    view: View, checkpoints: StageCheckpoints, *, files_change: bool, synced: View | None = None
) -> tuple[StageOutcome, ...]:
    """Return the outcome that `run` would show for each stage.

    With `files_change`, no earlier proof is valid. `synced` is the view after the sync, which the later stages use.
    """
    outcomes = []
    trained = True
    after = synced or view
    for stage in STAGES:
        status = judge_status(stage, after if stage.name in DEPEND_ON_FILES else view, checkpoints)
        if status.done and files_change and stage.name in DEPEND_ON_FILES:
            status = StageStatus(False, "its input files will change")
        state, reason = StageState.SKIPPED if status.done else StageState.PENDING, status.reason
        if isinstance(stage, Train) and not status.done:
            if not files_change:
                state, reason = planned_training(stage, after, reason)
            trained = state is StageState.SKIPPED
        elif isinstance(stage, Logs) and not trained:
            state, reason = StageState.PENDING, "after train"
        outcomes.append(StageOutcome(stage.name, state, reason=reason))
    return tuple(outcomes)


def planned_training(stage: Train, view: View, otherwise: str) -> tuple[StageState, str]:
    """Return the state and reason of the train stage, from the state of the run on the host."""
    run = run_of(view)
    if stage.check(view).ok:
        return StageState.SKIPPED, stage.found(view)
    if run is None or run.state is JobState.ABSENT:
        return StageState.PENDING, otherwise
    if run.state is JobState.RUNNING:
        step = f", step {run.progress.step}" if run.progress is not None else ""
        return StageState.RUNNING, f"{run.run} runs{step}"
    newest = newest_kept(run)
    if newest is None:
        return StageState.PENDING, f"{run.run} would start again at step 0"
    if view.config.command is None:
        return StageState.PENDING, f"{run.run} would resume at step {newest}"
    return StageState.PENDING, f"{run.run} would continue; its script gets the path of the checkpoint of step {newest}"


def judge_without_proof(view: View) -> Report:
    """Judge the host and the code statically. The findings of the sync are in `SyncPlan.report` instead."""
    return judge_host(view.survey, need_of(view)).plus(judge_code(view))
