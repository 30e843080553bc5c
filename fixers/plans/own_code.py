"""What a project's own Python files declare, read and import, from the cache where a file is unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from posixpath import basename, dirname, splitext

from fixers.frame.own_settings import OwnSettings, judge_source, merge_own, reads_settings
from fixers.frame.site import Tree
from fixers.plans.memory import Digested, Memory, code_digest
from fixers.sources.file_roles import imported_names

IMPORTS = "*"
"""The row of the cache that holds the scripts that no file imports; its digest covers all files."""


def read_own_code(tree: Tree) -> OwnSettings:
    """Return the settings that the project's files read, declare and select, and the scripts that never train.

    Unreadable files are skipped; planning reports them.
    """
    paths = [path for path in tree.paths() if reads_settings(path)]
    memory = Memory.of(tree.root, f"own-{code_digest()}") if isinstance(tree, Digested) else None
    parts: list[OwnSettings] = []
    for path in paths:
        with suppress(OSError):
            parts.append(_judged(tree, memory, path))
    own = merge_own(parts)
    if own.scripts:
        modules = [path for path in paths if path.endswith(".py")]
        scripts = _not_imported(tree, memory, modules, own.scripts)
        own = replace(own, scripts=scripts, consumers=own.consumers.without(scripts))
    if memory is not None:
        memory.save()
    return own


def _judged(tree: Tree, memory: Memory | None, path: str) -> OwnSettings:
    """Return the settings of one file, from the cache if the file is unchanged."""
    if memory is None or not isinstance(tree, Digested):
        return judge_source(path, tree.read(path))
    digest = tree.digest(path)
    own = memory.recall_own(path, digest)
    if own is None:
        own = judge_source(path, tree.read(path))
        memory.remember_own(path, digest, own)
    return own


def _not_imported(tree: Tree, memory: Memory | None, paths: Sequence[str], scripts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the scripts whose names no other file imports."""
    if memory is None or not isinstance(tree, Digested):
        return tuple(sorted(set(scripts) - _imported(tree, paths, scripts)))
    digest = hashlib.sha256(repr([memory.rows[path] for path in paths if path in memory.rows]).encode()).hexdigest()
    known = memory.recall_own(IMPORTS, digest)
    if known is None:
        known = OwnSettings(scripts=tuple(sorted(set(scripts) - _imported(tree, paths, scripts))))
        memory.remember_own(IMPORTS, digest, known)
    return known.scripts


def _imported(tree: Tree, paths: Sequence[str], scripts: tuple[str, ...]) -> set[str]:
    """Return the scripts that may be imported: another file names them beside their folder, or from the same one."""
    by_name: dict[bytes, list[str]] = {}
    for script in scripts:
        by_name.setdefault(splitext(basename(script))[0].encode(), []).append(script)
    found: set[str] = set()
    for path in paths:
        with suppress(OSError):
            words = {*imported_names(tree.read(path))}
            for name in words & by_name.keys():
                found |= {each for each in by_name[name] if each != path and _is_near(each, path, words)}
    return found


def _is_near(script: str, importer: str, words: set[bytes]) -> bool:
    """Return True if the importing file is in the script's folder, or names that folder in an import."""
    folder = dirname(script)
    return folder == dirname(importer) or basename(folder).encode() in words
