"""The modules of a project, as parts of its training programs. Modules of unchanged files come from the cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from fixers.frame.modules import Module, read_module
from fixers.frame.scope import judge_scope
from fixers.frame.site import Tree
from fixers.frame.target import Target
from fixers.plans.plan_cache import Digested, PlanCache, code_digest
from fixers.sources.library_copies import library_copies


def read_modules(tree: Tree, target: Target) -> tuple[Module, ...]:
    """Return every Python file and notebook that a training on a card may run; unreadable files are skipped."""
    copies = library_copies(tree.paths())
    paths = [path for path in tree.paths() if path.endswith((".py", ".ipynb")) and not path.startswith(copies)]
    if not isinstance(tree, Digested):
        return tuple(_read(tree, sorted(paths), target))
    cache = PlanCache.of(tree.root, f"modules-{code_digest()}")
    modules: list[Module] = []
    for path in sorted(paths):
        with suppress(OSError):
            modules += _cached(tree, cache, path, target)
    cache.save()
    return tuple(modules)


def _read(tree: Tree, paths: list[str], target: Target) -> Iterator[Module]:
    for path in paths:
        with suppress(OSError):
            data = tree.read(path)
            if not judge_scope(path, data, target):
                yield read_module(path, data)


def _cached(tree: Digested, cache: PlanCache, path: str, target: Target) -> list[Module]:
    digest = tree.digest(path)
    row = cache.find_row(path, digest)
    if row is None:
        data = tree.read(path)
        row = read_module(path, data).as_row() if not judge_scope(path, data, target) else []
        cache.store_row(path, digest, row)
    return [Module.of_row(row)] if row else []
