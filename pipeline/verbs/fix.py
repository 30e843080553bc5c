"""`pipeline fix`: run only the fixers, in a local folder or on a host; `--undo` restores the originals."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.site import Site
from fixers.plans.chosen_fixers import required_by
from fixers.plans.diff import render_diff
from fixers.plans.on_disk import apply_to_disk, undo_on_disk
from fixers.plans.site_plan import plan_fixes
from pipeline.actions.findings_after_fixes import findings_after_fixes
from pipeline.actions.fix import edits_on_host, fix_on_host, undo_on_host
from pipeline.actions.session import exclusive_lock, host_session
from pipeline.config.load import load_config
from pipeline.messages.fix_summary import group_findings, list_left, summarise
from pipeline.messages.outcome import Outcome
from pipeline.records.files import disk_full_as_error
from pipeline.runs.selection import load_selection
from pipeline.show.screen import Screen
from pipeline.stages.stage import RunOptions
from pipeline.verbs.local_site import judge_card, local_site
from remote.errors import BadUsage
from remote.project.links_out import project_left
from remote.project.paths import is_folder, resolved
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Severity
from remote.protocol.quantities import count
from remote.protocol.shell import command_line, shell_command

LABEL_WIDTH = 12
LEFT_WIDTH = 40


def fix(
    path: Path | None = None,
    host: str = "",
    config: str = "",
    only: Sequence[str] = (),
    diff: bool = False,
    check: bool = False,
    undo: bool = False,
    card: str = "",
    overrides: Sequence[str] = (),
    verbose: bool = False,
    as_json: bool = False,
) -> int:
    """Correct known faults with the smallest possible edits. A second run changes nothing."""
    screen = Screen(as_json=as_json)
    show_only = diff or check
    _refuse_contradictions(undo and bool(show_only or only), bool(host) and path is not None)
    if host:
        outcome, plan = _on_host(screen, host, config, only, card, overrides, show_only=show_only, undo=undo)
    elif undo:
        outcome, plan = _undo_locally(screen, _folder(path)), Plan()
    else:
        root = _folder(path)
        loaded = load_config(config, root, overrides) if config else None
        outcome, plan = _fix_locally(screen, root, local_site(root, card, loaded), only, show_only=show_only)
    outcome = _checked(outcome, plan) if check else outcome
    screen.closing(outcome if verbose or as_json else replace(outcome, findings=group_findings(outcome.findings)))
    if not undo and not as_json:
        _summarise(screen, replace(plan, findings=outcome.findings), verbose=verbose, done=not show_only)
    return outcome.exit_code


def _refuse_contradictions(undo_and_more: bool, two_places: bool) -> None:
    if undo_and_more:
        message = "--undo restores every file; it cannot be combined with --diff, --check or --only"
        raise BadUsage(message, where="--undo")
    if two_places:
        raise BadUsage("fix takes PATH or --host, not both", hint="pipeline fix . --card titan-rtx")


def _checked(outcome: Outcome, plan: Plan) -> Outcome:
    """Return the outcome of `--check`, which fails if a fixer would change something."""
    return replace(outcome, exit_code=ExitCode.WOULD_CHANGE) if outcome.ok and plan.changes else outcome


def _summarise(screen: Screen, plan: Plan, *, verbose: bool, done: bool) -> None:
    """Print the changes, the places that were not changed (with the reasons), and the decisions for the user."""
    screen.labelled(summarise(plan, done=done, whole=verbose), LABEL_WIDTH)
    if verbose:
        screen.labelled(list_left(plan.skipped), LEFT_WIDTH)
    elif plan.skipped:
        screen.note("`pipeline fix --diff -v` lists every place")


def _folder(path: Path | None) -> Path:
    root = resolved(path or Path.cwd())
    if path is not None and (left := project_left(path)) is not None:
        message = f"{path} leads through a link to {root}, outside of {left}; nothing was changed"
        hint = shell_command("pipeline fix {}", str(root))
        raise BadUsage(message, where="PATH", hint=hint, instead=(str(path), str(root)))
    if not is_folder(root):
        instead = (str(path), str(Path(path).parent)) if path is not None and is_folder(root.parent) else None
        raise BadUsage(f"{root} is not a folder", where="PATH", hint="pipeline fix .", instead=instead)
    return root


def _fix_locally(
    screen: Screen, root: Path, site: Site, only: Sequence[str], *, show_only: bool
) -> tuple[Outcome, Plan]:
    plan = plan_fixes(site, only=only or None)
    diff = render_diff(plan)
    _show(screen, plan, diff, only)
    with disk_full_as_error(root):
        changed: tuple[str, ...] = () if show_only else apply_to_disk(root, plan)
    if changed:
        _note_undo(screen, count(len(changed), "file"), str(root))
    findings = plan.findings + findings_after_fixes(site, plan) + judge_card(site)
    return _outcome(Plan(findings, plan.changes, plan.skipped), changed, diff), plan


def _show(screen: Screen, plan: Plan, diff: str, only: Sequence[str]) -> None:
    """Show the diff, and the fixers that were added because the selected fixers require them."""
    for required, name in required_by(only).items():
        screen.note(f"{required} is added: without it, the result of {name} would not train")
    bad = any(finding.severity is Severity.ERROR for finding in plan.findings)
    screen.diff(diff) if diff else screen.note("nothing was changed" if bad else "nothing to fix")


def _note_undo(screen: Screen, what: str, *words: str) -> None:
    command = command_line(["pipeline", "fix", *words, "--undo"]) or "pipeline fix ... --undo"
    screen.note(f"{what} changed; `{command}` restores the originals")


def _undo_locally(screen: Screen, root: Path) -> Outcome:
    with disk_full_as_error(root):
        undone = undo_on_disk(root)
    for path in undone.restored:
        screen.note(f"{path}: restored")
    if not undone.restored and not undone.findings:
        screen.note("nothing to restore")
    code = exit_code_of(undone.findings, ExitCode.FIXER)
    return Outcome("fix", code, findings=undone.findings, more={"undone": list(undone.restored)})


def _on_host(
    screen: Screen,
    host: str,
    config: str,
    only: Sequence[str],
    card: str,
    overrides: Sequence[str],
    *,
    show_only: bool,
    undo: bool,
) -> tuple[Outcome, Plan]:
    if not config:
        raise BadUsage(
            "fix --host needs a config",
            where="--config",
            hint=shell_command("pipeline fix --host {} --config NAME", host),
        )
    selection = load_selection(host, config, overrides, Path.cwd(), card=card)
    prompter = None if screen.as_json else screen
    doing = f"fix {selection.loaded.name} on {selection.host.name}"
    with (
        nullcontext() if show_only else exclusive_lock(selection, doing, prompter=prompter),
        host_session(selection, screen, RunOptions(), keep=not show_only, prompter=prompter) as context,
    ):
        if undo:
            undone = undo_on_host(context)
            screen.note(f"{count(len(undone), 'file')} restored on {host}")
            return Outcome("fix", host=host, config=selection.loaded.name, more={"undone": list(undone)}), Plan()
        plan = fix_on_host(context, only or None, show_only=show_only)
        made = edits_on_host(context.view) if show_only else Plan()
    diff = render_diff(plan)
    if made.changes and not diff:
        screen.note(f"nothing left to fix; the copy on {host} already contains these edits:")
        screen.diff(render_diff(made))
        command = command_line(["pipeline", "fix", *selection.given, "--undo"]) or "pipeline fix ... --undo"
        screen.note(f"`{command}` restores the originals on {host}")
    else:
        _show(screen, plan, diff, only)
    changed = () if show_only else tuple(_name(change) for change in plan.changes)
    if changed:
        _note_undo(screen, count(len(changed), "place"), *selection.given)
    outcome = _outcome(plan, changed, diff)
    more = {**outcome.more, **({"made": render_diff(made)} if made.changes else {})}
    return replace(outcome, host=host, config=selection.loaded.name, given=selection.given, more=more), plan


def _name(change: FileChange | HostChange) -> str:
    return change.path if isinstance(change, FileChange) else change.fixer


def _outcome(plan: Plan, changed: tuple[str, ...], diff: str) -> Outcome:
    left = [{"where": each.where, "reason": each.reason} for each in plan.skipped]
    more = {"changed": list(changed), "diff": diff, "left": left}
    return Outcome("fix", exit_code_of(plan.findings, ExitCode.FIXER), findings=plan.findings, more=more)
