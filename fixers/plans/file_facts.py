"""Facts that planning needs about each file. A file is read once, and the facts about an unchanged file are cached."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from fixers.frame.code_facts import NO_FACTS, CodeFacts, judge_source, reads_settings
from fixers.frame.modules import Module, read_module
from fixers.frame.site import Tree
from fixers.plans.file_plan import judge_size, may_apply
from fixers.plans.in_processes import in_processes
from fixers.plans.plan_cache import Digested, PlanCache, code_digest, sparse
from fixers.registry import source_fixers
from fixers.sources.copied_libraries import library_copies
from remote.protocol.dataclass import dataclass
from remote.protocol.tokenizer_files import LFS_POINTER
from remote.protocol.values import decode


@dataclass(frozen=True)
class FileFacts:
    """`digest`: empty if the file cannot be read. `fixer_names`: the source fixers that may apply to the file.

    `code` and `module` are empty unless the file is the project's own code, settings, commands or documentation.
    """

    path: str
    digest: str
    fixer_names: tuple[str, ...]
    code: CodeFacts = NO_FACTS
    module: Module | None = None


def read_files(tree: Tree) -> tuple[FileFacts, ...]:
    """Return the facts about every file that planning reads, in the order of the paths."""
    copies = library_copies(tree.paths())
    paths = [path for path in sorted(tree.paths()) if _is_read(path)]
    cache = PlanCache.of(tree.root, f"files-{code_digest()}") if isinstance(tree, Digested) else None
    known = {path: found for path in paths if (found := _known(tree, cache, path, copies)) is not None}
    missing = [path for path in paths if path not in known]
    for found in in_processes(partial(_read, tree, copies), missing):
        known[found.path] = found
        if cache is not None and found.digest:
            cache.store_row(found.path, found.digest, _row(found, is_copy=found.path.startswith(copies)))
    if cache is not None:
        cache.save()
    return tuple(known[path] for path in paths)


def _is_read(path: str) -> bool:
    return reads_settings(path) or path.endswith(".ipynb") or any(fixer.matches(path) for fixer in source_fixers())


def _read(tree: Tree, copies: tuple[str, ...], path: str) -> FileFacts:
    fixers = [fixer for fixer in source_fixers() if fixer.matches(path)]
    try:
        data = tree.read(path)
    except OSError as error:
        # A JSON file of this size is data.
        is_data = error.errno == errno.EFBIG and path.endswith(".json")
        return FileFacts(path, "", () if is_data else tuple(fixer.name for fixer in fixers))
    fixer_names = tuple(each.name for each in fixers if data.startswith(LFS_POINTER) or may_apply(path, data, (each,)))
    digest = hashlib.sha256(data).hexdigest()
    if path.startswith(copies) or judge_size(path, data):
        return FileFacts(path, digest, fixer_names)
    code = judge_source(path, data) if reads_settings(path) else NO_FACTS
    module = read_module(path, data) if path.endswith((".py", ".ipynb")) else None
    return FileFacts(path, digest, fixer_names, code, module)


def _known(tree: Tree, cache: PlanCache | None, path: str, copies: tuple[str, ...]) -> FileFacts | None:
    """Return the cached facts.

    Return None if the file is new or changed, or if it was moved into or out of a copied library.
    """
    if cache is None or not cache.rows or not isinstance(tree, Digested):
        return None
    with suppress(OSError, ValueError, TypeError):
        digest = tree.digest(path)
        row = cache.find_row(path, digest)
        if row is not None and row[0] == path.startswith(copies):
            _, names, code, module = row
            facts = decode(CodeFacts, code) if code else NO_FACTS
            return FileFacts(path, digest, tuple(names), facts, Module.of_row(path, module) if module else None)
    return None


def _row(found: FileFacts, *, is_copy: bool) -> Sequence[object]:
    module = found.module.as_row() if found.module is not None else None
    return [is_copy, found.fixer_names, sparse(found.code), module]
