"""Compute the findings that remain after the fixers, cached until a project file changes."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fixers.frame.change import FileChange, Plan
from fixers.frame.site import Site
from fixers.plans.file_plan import FileOutcome
from fixers.plans.plan_cache import Digested, PlanCache, code_digest
from pipeline.judgements import half_models, half_weights
from pipeline.judgements.half_weights import judge_after_fixes
from remote.policy.precision import judge_precision
from remote.protocol.findings import Finding
from remote.protocol.precision import PrecisionPlan

EVERY_FILE = "*"
"""The path under which the cache stores findings that depend on all files."""


def findings_after_fixes(site: Site, plan: Plan) -> tuple[Finding, ...]:
    """Return the error of a precision that the card does not support, and the findings of `judge_after_fixes`."""
    refusal = precision_of(site).refusal if site.gpu is not None else None
    return (*((refusal,) if refusal is not None else ()), *_cached(site, plan))


def precision_of(site: Site) -> PrecisionPlan:
    """Return the precision plan for the card of the site. Without a config, `precision` is auto."""
    capability, card = (site.gpu.capability, site.gpu.name) if site.gpu is not None else (None, "")
    return judge_precision(capability=capability, requested=site.config.get("precision") or "auto", card=card)


def _cached(site: Site, plan: Plan) -> tuple[Finding, ...]:
    """Return the findings of `judge_after_fixes`, cached. If a file is unreadable, the cache is not used."""
    tree = site.tree
    if not isinstance(tree, Digested):
        return judge_after_fixes(site, plan)
    try:
        files = [(path, tree.digest(path)) for path in sorted(tree.paths())]
    except OSError:
        return judge_after_fixes(site, plan)
    changes = [(each.path, each.after) for each in plan.changes if isinstance(each, FileChange)]
    inputs = repr((files, changes, site.gpu and site.gpu.capability, site.config.get("precision"))).encode()
    stored = PlanCache.of(tree.root, f"left-{_judge_digest()}")
    digest = hashlib.sha256(inputs).hexdigest()
    known = stored.find(EVERY_FILE, digest, tree)
    if known is not None:
        return known.findings
    findings = judge_after_fixes(site, plan)
    stored.store(EVERY_FILE, digest, FileOutcome(findings=findings))
    stored.save()
    return findings


@cache
def _judge_digest() -> str:
    """Return a digest of the code that `judge_after_fixes` depends on."""
    digest = hashlib.sha256(code_digest().encode())
    for module in (half_models, half_weights):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()[:32]
