"""Build the site for the fixers (a project and its host), and plan their changes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.fixed_tree import as_planned
from fixers.frame.site import Site, Tree
from fixers.registry import FIXERS, SETUP_NAMES, SOURCE_NAMES, version_of
from pipeline.hosts.address import python_of
from pipeline.loading import LazyModule
from pipeline.runs.secrets import secret_values
from pipeline.runs.view import View
from remote.host import Host
from remote.link.read_only import ReadOnlyHost
from remote.protocol.findings import Finding, Severity
from remote.sync.rewrite import Rewrite, plan_rewrites

if TYPE_CHECKING:
    from fixers.plans import site_plan
    from fixers.setup import started_syntax
else:
    site_plan = LazyModule("fixers.plans.site_plan")
    started_syntax = LazyModule("fixers.setup.started_syntax")

MADE_ON_HOST = frozenset(SETUP_NAMES)
"""Fixers that create files in the host's tree from other files of the host."""


def site_of(view: View, host: Host | None) -> Site:
    """Return the local project, with the host and its card as targets. Fixers get read-only access to the host."""
    return Site(
        tree=view.scan,
        gpu=view.survey.gpu,
        host=ReadOnlyHost(host) if host is not None else None,
        survey=view.survey,
        project=view.layout,
        python=python_of(view.host.config),
        environment={**view.host.config.env, **view.config.env},
        secrets=secret_values(view.host.config, view.config),
        settings=fixer_settings_of(view),
        config=view.config.model_dump(mode="json"),
    )


def fixer_settings_of(view: View) -> dict[str, Any]:
    """Return the config's `fixers:` entries by name.

    A fixer that a cure applies runs even if the config turns it off. Its settings come from the config file.
    """
    called = {cure.fixer: _settings_of(view, cure.fixer) for cure in view.cures if cure.fixer}
    return {**(view.config.fixers.model_extra or {}), **called}


def _settings_of(view: View, fixer: str) -> Any:
    settings = view.loaded.fixer_settings.get(fixer)
    return settings if isinstance(settings, dict) else "auto"


def plan_for(view: View, host: Host | None, only: Iterable[str] | None = None) -> Plan:
    """Return the plan of all changes by fixers, given the current state of the host."""
    return site_plan.plan_fixes(site_of(view, host), only=only)


def fixer_versions() -> str:
    """Return the names and versions of all fixers as text. The stage `fix` runs again if the text changes."""
    return ",".join(f"{name}={version_of(name)}" for name in sorted(FIXERS))


def tree_as_fixed(view: View) -> Tree:
    """Return the project's files as changed by the source fixers."""
    site = site_of(view, None)
    return as_planned(site.tree, site_plan.plan_fixes(site, only=SOURCE_NAMES))


def unparsable_sources(view: View) -> tuple[Finding, ...]:
    """Return the errors about source files that do not parse, which stop the stage `fix`, and about the script."""
    return (*(one for one in _unparsable_for_fixers(view) if one.severity is Severity.ERROR), *unparsable_start(view))


def unparsable_start(view: View) -> tuple[Finding, ...]:
    """Return the findings of files that the command loads at its start and that do not parse, without those of fixers.

    The fixers do not parse a file in which they have nothing to change. The files are not checked if the Python that
    will run them may be newer than this one, because its syntax may be newer too.
    """
    setting = fixer_settings_of(view).get("environment")
    has_base = isinstance(setting, dict) and "base" in setting
    if has_base or not (2,) < view.survey.interpreter.version[:2] <= sys.version_info[:2]:
        return ()
    found = started_syntax.judge_syntax(view.scan, view.config.command or ())
    return started_syntax.without_known(found, _unparsable_for_fixers(view)) if found else ()


def _unparsable_for_fixers(view: View) -> tuple[Finding, ...]:
    plan = site_plan.plan_fixes(site_of(view, None), only=SOURCE_NAMES)
    return tuple(one for one in plan.findings if one.check == started_syntax.CHECK)


def rewrites_left(plan: Plan, view: View) -> tuple[Rewrite, ...]:
    """Return the planned rewrites that the host does not have, and reverts of rewrites that are no longer planned."""
    files = [change for change in plan.changes if isinstance(change, FileChange)]
    return plan_rewrites(view.scan, view.survey.tree, files, MADE_ON_HOST)


def host_changes_of(plan: Plan) -> tuple[HostChange, ...]:
    """Return the changes of a plan that are not edits of the tree."""
    return tuple(change for change in plan.changes if isinstance(change, HostChange))
