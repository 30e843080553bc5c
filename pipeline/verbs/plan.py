"""`pipeline plan`: show what `run` would change, as a diff."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fixers.plans.diff import render_diff
from fixers.plans.site_plan import plan_fixes
from fixers.setup.started_syntax import as_warnings, judge_syntax, without_known
from pipeline.actions.findings_after_fixes import findings_after_fixes
from pipeline.actions.preview import Preview, preview
from pipeline.actions.session import host_session
from pipeline.config.load import load_config
from pipeline.judgements.host import judge_interpreter
from pipeline.messages.hints import complete_hint
from pipeline.messages.outcome import Outcome, job_outcome
from pipeline.runs.fixes import host_changes_of, site_of, unparsable_start
from pipeline.runs.laptop_paths import laptop_paths
from pipeline.runs.missing_modules import UNFIT, missing_before
from pipeline.runs.new_run import describe_excluded
from pipeline.runs.project_code import judge_old_code
from pipeline.runs.runtime import describe_runtime, wants_runtime
from pipeline.runs.secrets import judge_secrets
from pipeline.runs.selection import load_selection
from pipeline.runs.tracker_key import wandb_key
from pipeline.runs.trained_files import not_inputs
from pipeline.runs.view import View
from pipeline.show.screen import Screen
from pipeline.stages.environment import need_of
from pipeline.stages.stage import RunOptions
from pipeline.verbs.local_site import judge_card, local_site
from remote.errors import BadUsage
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.quantities import count, size
from remote.protocol.shell import shell_command

SHOWN_DELETES = 20


def plan(host: str = "", config: str = "", card: str = "", overrides: Sequence[str] = (), as_json: bool = False) -> int:
    """Show what `run` would send, delete and rewrite, without any change."""
    screen = Screen(as_json=as_json)
    if host:
        if not config:
            raise BadUsage(
                "plan --host needs a config",
                where="--config",
                hint=shell_command("pipeline plan --host {} --config NAME", host),
            )
        outcome = _for_host(screen, host, config, card, overrides)
    else:
        outcome = _for_card(screen, config, card, overrides)
    screen.closing(outcome)
    return outcome.exit_code


def _for_host(screen: Screen, host: str, config: str, card: str, overrides: Sequence[str]) -> Outcome:
    named = load_selection(host, config, overrides, Path.cwd(), card=card)
    with host_session(named, screen, RunOptions(), keep=False, prompter=None if screen.as_json else screen) as context:
        seen = preview(context)
        fixes = seen.fixes.findings + unparsable_start(context.view)
        fixes += findings_after_fixes(site_of(context.view, None), seen.fixes)
        paths = laptop_paths(context.host, context.view).plus(wandb_key(context.host, context.view)).findings
        unfit: tuple[Finding, ...] = ()
        if not any(change.fixer == "environment" for change in host_changes_of(seen.fixes)):
            unfit = _without_torch(context.view)
            paths += missing_before(context.host, context.view, seen.fixes).findings if not unfit else ()
        paths += judge_old_code(context.view).findings
        unset = judge_secrets(named.host.config, named.loaded.config)
        runtime = describe_runtime(context.view)
    screen.heading(f"{named.loaded.name} on {named.host.name}: what `run` would do")
    for stage in seen.stages:
        screen.stage_ended(stage)
    _show_sync(screen, seen)
    for line in filter(None, (*seen.new_run, describe_excluded(context.view))):
        screen.note(line)
    fixed = context.view.survey.tree.fixed
    screen.diff(seen.diff or f"no fixer would change anything{' more' if fixed else ''}\n")
    if fixed:
        show = complete_hint("pipeline fix --diff", named.host.name, named.loaded.name, named.given)
        screen.note(
            f"{count(len(fixed), 'file')} in the copy on the host already rewritten; to see the changes: {show}"
        )
    if runtime:
        screen.note(runtime)
    return Outcome(
        "plan",
        _exit_code((*unfit, *fixes), seen.sync.report.findings, (*paths, *unset)),
        host=named.host.name,
        config=named.loaded.name,
        run=seen.run.run if seen.run is not None else "",
        stages=seen.stages,
        findings=(*unfit, *seen.sync.report.findings, *fixes, *paths, *unset),
        job=job_outcome(seen.run) if seen.run is not None else None,
        more={
            "send": sorted(seen.sync.send),
            "delete": list(seen.sync.delete),
            "diff": seen.diff,
            "not_inputs": list(not_inputs(context.view)),
        },
        given=named.given,
    )


def _without_torch(view: View) -> tuple[Finding, ...]:
    """Return the error of an interpreter that does not run or has no torch, which no missing package outweighs."""
    found = judge_interpreter(view.survey.interpreter, need_of(view))
    return tuple(one for one in found if one.check in UNFIT)


def _exit_code(fixes: Sequence[Finding], sync: Sequence[Finding], start: Sequence[Finding]) -> ExitCode:
    """Return the exit code of the first error, as `run` would exit: an error stops it before the training starts."""
    codes = (
        exit_code_of(fixes, ExitCode.FIXER),
        exit_code_of(sync, ExitCode.SYNC),
        exit_code_of(start, ExitCode.ENVIRONMENT),
    )
    return next(filter(None, codes), ExitCode.OK)


def _show_sync(screen: Screen, seen: Preview) -> None:
    sync = seen.sync
    if sync.empty:
        return
    screen.note(f"would send {count(len(sync.send), 'file')}, {size(sync.send_bytes)}; delete {len(sync.delete)}")
    for path in sync.delete[:SHOWN_DELETES]:
        screen.note(f"delete {path}")
    if len(sync.delete) > SHOWN_DELETES:
        screen.note(f"and {len(sync.delete) - SHOWN_DELETES} more; --json lists all")


def _for_card(screen: Screen, config: str, card: str, overrides: Sequence[str]) -> Outcome:
    loaded = load_config(config, Path.cwd(), overrides) if config else None
    site = local_site(loaded.root if loaded else Path.cwd(), card, loaded)
    made = plan_fixes(site)
    diff = render_diff(made)
    screen.diff(diff or "no fixer would change anything\n")
    if loaded is not None and wants_runtime(loaded.config):
        screen.note("runtime: auto applies the precision plan inside the training process")
    findings = made.findings + findings_after_fixes(site, made) + judge_card(site)
    if loaded is not None:
        # The host may have a newer Python.
        findings += without_known(as_warnings(judge_syntax(site.tree, loaded.config.command or ())), findings)
    return Outcome(
        "plan",
        exit_code_of(findings, ExitCode.FIXER),
        config=config,
        findings=findings,
        more={"diff": diff},
    )
