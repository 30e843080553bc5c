"""What a project's own Python files declare, read and import, from the cache where a file is unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from posixpath import basename, dirname, splitext

from fixers.frame.own_settings import OwnSettings, judge_source, merge_own, reads_settings
from fixers.frame.site import Tree
from fixers.plans.plan_cache import Digested, PlanCache, code_digest
from fixers.sources.file_roles import imported_names
from fixers.sources.readers.find import is_test

IMPORTS = "*"
"""The row of the cache that holds the scripts that no file imports; its digest covers all files."""


def read_own_code(tree: Tree) -> OwnSettings:
    """Return the settings that the project's files read, declare and select, and the scripts that never train.

    Unreadable files are skipped; planning reports them.
    """
    paths = [path for path in tree.paths() if reads_settings(path)]
    cache = PlanCache.of(tree.root, f"own-{code_digest()}") if isinstance(tree, Digested) else None
    parts: list[OwnSettings] = []
    for path in paths:
        with suppress(OSError):
            parts.append(_judged(tree, cache, path))
    own = merge_own(parts)
    if own.scripts:
        modules = [path for path in paths if path.endswith(".py")]
        scripts = _not_imported(tree, cache, modules, own.scripts)
        own = replace(own, scripts=scripts, consumers=own.consumers.without(scripts))
    if cache is not None:
        cache.save()
    return own


def _judged(tree: Tree, cache: PlanCache | None, path: str) -> OwnSettings:
    """Return the settings of one file, from the cache if the file is unchanged."""
    if cache is None or not isinstance(tree, Digested):
        return judge_source(path, tree.read(path))
    digest = tree.digest(path)
    own = cache.find_own(path, digest)
    if own is None:
        own = judge_source(path, tree.read(path))
        cache.store_own(path, digest, own)
    return own


def _not_imported(
    tree: Tree, cache: PlanCache | None, paths: Sequence[str], scripts: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the scripts whose names no other file imports."""
    if cache is None or not isinstance(tree, Digested):
        return tuple(sorted(set(scripts) - _imported(tree, paths, scripts)))
    digest = hashlib.sha256(repr([cache.rows[path] for path in paths if path in cache.rows]).encode()).hexdigest()
    known = cache.find_own(IMPORTS, digest)
    if known is None:
        known = OwnSettings(scripts=tuple(sorted(set(scripts) - _imported(tree, paths, scripts))))
        cache.store_own(IMPORTS, digest, known)
    return known.scripts


def _imported(tree: Tree, paths: Sequence[str], scripts: tuple[str, ...]) -> set[str]:
    """Return the scripts that may be imported: another file imports their name, and is or names their folder."""
    by_name: dict[bytes, list[str]] = {}
    for script in scripts:
        by_name.setdefault(splitext(basename(script))[0].encode(), []).append(script)
    found: set[str] = set()
    for path in paths:
        if is_test(path):
            continue
        with suppress(OSError):
            words = {*imported_names(tree.read(path))}
            for name in words & by_name.keys():
                found |= {each for each in by_name[name] if each != path and _is_near(each, path, words)}
    return found


def _is_near(script: str, importer: str, words: set[bytes]) -> bool:
    """Return True if the importing file is in the script's folder, or names that folder in an import."""
    folder = dirname(script)
    return folder == dirname(importer) or basename(folder).encode() in words
