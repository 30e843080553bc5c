"""Keep the proved plan of a project until a file changes that the proof reads.

A proof may read any file of the project, so it gets a tree that records which files it reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fixers.frame.change import FileChange, Plan
from fixers.frame.site import Site, Tree
from fixers.plans.file_plan import FileOutcome
from fixers.plans.offer import Offer
from fixers.plans.plan_cache import Digested, PlanCache, cache_key, from_stored, to_stored
from remote.protocol.dataclass import dataclass, field
from remote.protocol.values import encode

PROOF = "* proof"
"""The key of the cached plan, beside the paths of the files."""
UNREADABLE = ""


@dataclass(frozen=True)
class _RecordedTree:
    """The tree `tree`, and the digest of each file that is known or was read. `changed`: files with several digests."""

    tree: Tree
    digests: dict[str, str]
    changed: set[str] = field(default_factory=set)

    def paths(self) -> Iterable[str]:
        return self.tree.paths()

    def read(self, path: str) -> bytes:
        try:
            data = self.tree.read(path)
        except OSError:
            self._record(path, UNREADABLE)
            raise
        self._record(path, hashlib.sha256(data).hexdigest())
        return data

    def _record(self, path: str, digest: str) -> None:
        if self.digests.setdefault(path, digest) != digest:
            self.changed.add(path)


def proved_once(site: Site, offer: Offer, prove: Callable[[Site], Plan]) -> Plan:
    """Return the plan that `prove` returns for the site, or the cached one of the same offer and the same files.

    The plan is not cached if a file changes while it is read.
    """
    if not isinstance(site.tree, Digested):
        return prove(site)
    cache = PlanCache.of(site.tree.root, cache_key(offer.sources, offer.target))
    digest = _digest(site, offer)
    known = _known(cache.find_row(PROOF, digest), site.tree)
    if known is not None:
        return known
    listed = {each.path: each.digest for each in offer.files}
    tree = _RecordedTree(site.tree, dict(listed))
    plan = prove(replace(site, tree=tree))
    if not tree.changed:
        others = [[path, read] for path, read in tree.digests.items() if path not in listed]
        cache.seen |= cache.rows.keys()
        cache.store_row(PROOF, digest, [others, *_row(plan)])
        cache.save()
    return plan


def _digest(site: Site, offer: Offer) -> str:
    """Return a digest of everything that a proof depends on, except the cache's key and files that no fixer reads."""
    files = [(each.path, each.digest) for each in offer.files]
    target = offer.target.card, offer.target.on_host, bool(site.config)
    return hashlib.sha256(repr((tuple(site.tree.paths()), files, target, offer.plan)).encode()).hexdigest()


def _row(plan: Plan) -> list[Any]:
    changes = [each for each in plan.changes if isinstance(each, FileChange)]
    rows = [[each.path, hashlib.sha256(each.before).hexdigest(), to_stored(FileOutcome(each))] for each in changes]
    return [encode(rows), encode(to_stored(FileOutcome(None, plan.findings, plan.skipped)))]


def _known(row: list[Any] | None, tree: Digested) -> Plan | None:
    """Return the plan of the row, or None if there is none or if a file that the proof read has changed."""
    if row is None:
        return None
    with suppress(ValueError, TypeError, OSError):
        others, rows, rest = row
        if all(_digest_of(path, tree) == digest for path, digest in others):
            outcomes = [from_stored(path, digest, stored, tree) for path, digest, stored in rows]
            remaining = from_stored("", "", rest, tree)
            changes = [each.change for each in outcomes if each is not None and each.change is not None]
            return (
                Plan(remaining.findings, tuple(changes), remaining.skipped)
                if remaining and len(changes) == len(rows)
                else None
            )
    return None


def _digest_of(path: str, tree: Digested) -> str:
    try:
        return tree.digest(path)
    except OSError:
        return UNREADABLE
