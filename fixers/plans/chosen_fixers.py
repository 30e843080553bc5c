"""Choose the fixers of a plan: those that the user names, or all that the site and its config allow."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from fixers.frame.site import Site
from fixers.registry import OFF, setup_fixers, source_fixers
from remote.errors import BadUsage

OFF_IN_PURE_FP16 = {"trainable-fp32"}
FOR_JOBS = {"trainer-resume", "port"}
"""Fixers that serve only jobs of `pipeline run`. Their changes do not depend on the card."""


def chosen_names(site: Site, only: Iterable[str] | None) -> set[str]:
    """Return the given fixers and the fixers that they require, or all fixers, except those that the config turns off.

    If a folder is fixed without a config, fixers that serve only jobs of halfstep are excluded too. With `precision:
    fp16-pure`, trainable parameters stay float16, so trainable-fp32 is left out.
    """
    known = {fixer.name for fixer in source_fixers()} | {fixer.name for fixer in setup_fixers()}
    needed = known if site.config or site.project else known - FOR_JOBS
    named = needed if only is None else set(only)
    if unknown := sorted(named - known):
        near = difflib.get_close_matches(unknown[0], known, n=1)
        instead = (unknown[0], near[0]) if near else None
        raise BadUsage(f"unknown fixer: {unknown[0]!r}", where="--only", hint="pipeline explain", instead=instead)
    named = named | set(required_by(named))
    refused = {name for name in named if site.settings.get(name) in OFF}
    return named - refused - (OFF_IN_PURE_FP16 if site.config.get("precision") == "fp16-pure" else set())


def required_by(named: Iterable[str]) -> dict[str, str]:
    """Return the fixers that the given fixers require, each with the fixer that requires it."""
    given = set(named)
    return {
        required: fixer.name
        for fixer in source_fixers()
        if fixer.name in given
        for required in fixer.requires
        if required not in given
    }
