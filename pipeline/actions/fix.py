"""Fixers on a host: plan changes of the tree on the host, then apply, show or undo them."""

from __future__ import annotations

from collections.abc import Iterable

from fixers.frame.change import FileChange, Plan
from fixers.registry import SETUP_NAMES, SOURCE_NAMES
from pipeline.actions.findings_after_fixes import findings_after_fixes
from pipeline.runs.fixes import host_changes_of, plan_for, rewrites_left, site_of
from pipeline.runs.host_changes import apply_host_change
from pipeline.runs.view import View
from pipeline.stages.stage import Context
from pipeline.stages.sync import Sync
from remote.errors import SyncRefused
from remote.host import read_field
from remote.protocol.hidden import Identifier
from remote.sync.rewrite import rewrite_tree, undo_rewrites


def fix_on_host(context: Context, only: Iterable[str] | None, *, show_only: bool) -> Plan:
    """Return the remaining changes, and apply them unless `show_only` is set.

    Raises SyncRefused if the tree is not synced.
    """
    view = context.view
    plan = plan_for(view, context.host, only if only is None else (*only, *fixers_on_host(view)))
    rewrites = rewrites_left(plan, view)
    paths = {rewrite.path for rewrite in rewrites}
    files = tuple(change for change in plan.changes if isinstance(change, FileChange) and change.path in paths)
    if not show_only:
        _require_synced(context)
        if rewrites:
            rewrite_tree(context.host, view.scan, rewrites)
        for change in host_changes_of(plan):
            apply_host_change(change, context.host, context.listener)
    findings = plan.findings + findings_after_fixes(site_of(view, None), plan)
    return Plan(findings, (*files, *host_changes_of(plan)), plan.skipped)


def edits_on_host(view: View) -> Plan:
    """Return the edits that earlier runs made in the host's copy of the project."""
    fixed = view.survey.tree.fixed
    changes = (change for change in plan_for(view, None, SOURCE_NAMES).changes if isinstance(change, FileChange))
    return Plan(changes=tuple(one for one in changes if one.path in fixed))


def fixers_on_host(view: View) -> tuple[str, ...]:
    """Return the source fixers that rewrote files on the host.

    Further rewrites start from the output of these fixers.
    """
    return tuple(sorted({name for row in view.survey.tree.fixed.values() for name in row.fixers} & {*SOURCE_NAMES}))


def undo_on_host(context: Context) -> tuple[str, ...]:
    """Restore every file that fixers changed on the host, and remove every file that they added. Return the paths."""
    _require_synced(context)
    fixed = tuple(context.view.survey.tree.fixed)
    made = [_undone(context, name, fixed) for name in SETUP_NAMES]
    if fixed:
        undo_rewrites(context.host, context.view.scan)
    return (*fixed, *(path for paths in made for path in paths))


def _undone(context: Context, fixer: str, fixed: tuple[str, ...]) -> tuple[str, ...]:
    """Undo one setup fixer. Return the paths that it restored or removed, except those in `fixed`."""
    answer = context.host.act("fix.undo", {"project": context.view.layout.key, "fixer": fixer})
    restored = read_field(tuple[Identifier, ...], context.host, answer, "restored")
    tree = f"{context.host.workdir}/{context.view.layout.tree}/"
    return tuple(path for path in restored if path.removeprefix(tree) not in fixed)


def _require_synced(context: Context) -> None:
    problems = Sync().check(context.view).errors
    if problems:
        raise SyncRefused(
            f"the host's tree differs from the local project: {problems[0].message}",
            hint="pipeline run --until sync",
        )
