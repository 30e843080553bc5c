"""Facts about the project's code: the merged facts of all its files, and facts that depend on several files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from posixpath import basename, dirname, splitext

from fixers.frame.code_facts import CodeFacts, merge_facts, reads_settings
from fixers.frame.code_traits import Traits, unscaled_options
from fixers.frame.site import Tree
from fixers.plans.file_facts import FileFacts
from fixers.plans.own_launches import deepspeed_only, reached_by
from fixers.plans.own_uses import float16_only, unselected
from fixers.plans.plan_cache import Digested, PlanCache, code_digest, sparse
from fixers.sources.copied_libraries import library_copies
from fixers.sources.file_roles import imported_names
from fixers.sources.flash_defaults import relied_on
from fixers.sources.function_roles import engines_in
from fixers.sources.launched import SEVERAL, Launched
from fixers.sources.readers.find import is_test
from remote.protocol.values import decode

IMPORTS, USES, SHARED, DEEPSPEED, DEFAULTS = "*", "* uses", "* shared", "* deepspeed", "* defaults"
MACHINES, ENGINES = "* machines", "* engines"
"""Keys of cached facts that depend on several files: scripts that no file imports, uses of FSDP policies, shared files,
modules that run only with DeepSpeed, defaults on which calls rely, modules that run on several machines or in several
processes, and trainers that use DeepSpeed's engine."""


def read_code_facts(tree: Tree, files: Sequence[FileFacts], started: Sequence[str] = ()) -> CodeFacts:
    """Return the settings that the project's files read, declare and select, and the scripts that never train.

    Copies of libraries are not read: their code selects nothing for this project. Files that cannot be read are skipped
    here and reported when they are planned. `started`: the files that the config's command starts.
    """
    copies = library_copies(tree.paths())
    several = _SeveralFiles(tree, {each.path: each.digest for each in files if not each.path.startswith(copies)})
    own = replace(merge_facts(each.code for each in files), copies=copies)
    own = replace(own, consumers=replace(own.consumers, unscaled=unscaled_options(own.traits)))
    if own.scripts:
        scripts = several.judge(IMPORTS, several.modules, partial(_not_imported, own.scripts)).scripts
        own = replace(own, scripts=scripts, consumers=own.consumers.without(scripts))
    policies, dtypes = own.traits.policies, own.traits.scaled_dtypes
    if policies or dtypes:
        sources = (*several.paths, *(path for path in several.digests if path.endswith(".ipynb")))
        uses = several.judge(USES, sources, partial(_uses, policies, dtypes))
        own = replace(own, float16_only=uses.float16_only, unselected=uses.unselected)
    if own.flash_defaults:
        relied = several.judge(DEFAULTS, several.modules, partial(_relied, own.flash_defaults)).flash_defaults
        own = replace(own, flash_defaults=relied)
    if own.traits.engines:
        engines = several.judge(ENGINES, several.modules, partial(_engines, own.traits.engines)).engines
        own = replace(own, engines=engines)
    own = _with_commands(several, replace(own, namesakes=_namesakes(several.modules, own)))
    own = _with_processes(several, own, files, started)
    several.save()
    return own


def _namesakes(modules: Sequence[str], own: CodeFacts) -> tuple[str, ...]:
    """Return the modules with the name of a module that creates half-precision models or casts to float32."""
    named = (*own.half_models, *own.traits.float_casters, *own.engines)
    paths = (each.rpartition(":")[0] for each in named)
    names = {basename(path) for path in paths} - {"__init__.py"}
    return tuple(path for path in modules if basename(path) in names)


def _with_commands(several: _SeveralFiles, own: CodeFacts) -> CodeFacts:
    """Add the facts about files that the project's commands start."""
    if own.pure_folders:
        shared = several.judge(SHARED, several.modules, partial(_shared, own.pure_folders)).shared
        own = replace(own, shared=shared)
    if any(each.deepspeed or each.config for each in own.traits.launched):
        judge = partial(_deepspeed_only, own.traits, own.scripts)
        own = replace(own, deepspeed_only=several.judge(DEEPSPEED, several.paths, judge).deepspeed_only)
    return own


def _with_processes(
    several: _SeveralFiles, own: CodeFacts, files: Sequence[FileFacts], started: Sequence[str]
) -> CodeFacts:
    """Add the files with ranks that run on several machines, and those with a `device_map` in several processes."""
    ranked, placed = ({e.path for e in files if name in e.fixer_names} for name in ("local-rank", "device-map"))
    running = CodeFacts()
    if ranked or placed:
        judge = partial(_started_by, own.traits.launched, started)
        running = several.judge(" ".join((MACHINES, *started)), several.paths, judge)
    on_machines, in_processes = running.on_machines or (), running.in_processes or ()
    return replace(
        own,
        on_machines=tuple(sorted(ranked.intersection(on_machines))),
        in_processes=tuple(sorted(placed.intersection(in_processes))),
    )


class _SeveralFiles:
    """Facts that depend on several files. They are cached until one of these files changes."""

    def __init__(self, tree: Tree, digests: Mapping[str, str]) -> None:
        self.tree = tree
        self.digests = digests
        self.paths = [path for path in digests if reads_settings(path)]
        self.modules = [path for path in self.paths if path.endswith(".py")]
        self._cache = PlanCache.of(tree.root, f"own-{code_digest()}") if isinstance(tree, Digested) else None

    def judge(self, row: str, paths: Sequence[str], judge: Callable[[Tree, Sequence[str]], CodeFacts]) -> CodeFacts:
        if self._cache is None:
            return judge(self.tree, paths)
        digest = hashlib.sha256(repr([(path, self.digests[path]) for path in paths]).encode()).hexdigest()
        known = self._cache.find_row(row, digest)
        with suppress(ValueError, LookupError):
            if known is not None:
                return decode(CodeFacts, known[0])
        facts = judge(self.tree, paths)
        self._cache.store_row(row, digest, [sparse(facts)])
        return facts

    def save(self) -> None:
        if self._cache is not None:
            self._cache.save()


def _uses(policies: Sequence[str], dtypes: Sequence[str], tree: Tree, paths: Sequence[str]) -> CodeFacts:
    return CodeFacts(float16_only=float16_only(tree, dtypes, paths), unselected=unselected(tree, policies, paths))


def _shared(folders: tuple[str, ...], tree: Tree, modules: Sequence[str]) -> CodeFacts:
    return CodeFacts(shared=_imported_from(tree, folders, modules))


def _deepspeed_only(traits: Traits, untrained: tuple[str, ...], tree: Tree, paths: Sequence[str]) -> CodeFacts:
    modules = [path for path in paths if path.endswith(".py")]
    return CodeFacts(
        deepspeed_only=deepspeed_only(tree, traits.launched, untrained, modules, traits.accelerate),
    )


def _engines(created: Sequence[str], tree: Tree, modules: Sequence[str]) -> CodeFacts:
    """Return the functions and classes that create DeepSpeed's engine, and those that use them, as `path:name`.

    A name that several modules define is ignored.
    """
    found, new = set(created), set(created)
    while new:
        names = {each.rpartition(":")[2] for each in new}
        names -= {name for name in names if sum(each.endswith(f":{name}") for each in found) > 1}
        new = set[str]()
        for path in modules if names else ():
            with suppress(OSError):
                text = tree.read(path)
                if any(name.encode() in text for name in names):
                    new |= {f"{path}:{each}" for each in engines_in(text, names)} - found
        found |= new
    return CodeFacts(engines=tuple(sorted(found)))


def _started_by(launched: Sequence[Launched], started: Sequence[str], tree: Tree, paths: Sequence[str]) -> CodeFacts:
    modules = [path for path in paths if path.endswith(".py")]
    reached = partial(reached_by, tree, launched, started, modules)
    return CodeFacts(
        on_machines=reached(lambda each: each.machines == SEVERAL), in_processes=reached(lambda each: each.processes)
    )


def _relied(defaults: Sequence[str], tree: Tree, modules: Sequence[str]) -> CodeFacts:
    found: set[str] = set()
    for path in modules:
        with suppress(OSError):
            found |= relied_on(defaults, path, tree.read(path))
    return CodeFacts(flash_defaults=tuple(sorted(found)))


def _imported_from(tree: Tree, folders: tuple[str, ...], modules: Sequence[str]) -> tuple[str, ...]:
    """Return the files that the code in the folders imports, directly or indirectly, by the names in its imports."""
    new = {path for path in modules if path.startswith(folders)}
    reached: set[str] = set()
    words: set[bytes] = set()
    while new:
        reached |= new
        for path in new:
            with suppress(OSError):
                words |= {*imported_names(tree.read(path))}
        new = {path for path in modules if _is_imported(path, words)} - reached
    return tuple(sorted(path for path in reached if not path.startswith(folders)))


def _is_imported(path: str, words: set[bytes]) -> bool:
    """Return True if an import names the module and its package."""
    package = basename(dirname(path)).encode()
    return splitext(basename(path))[0].encode() in words and (not package or package in words)


def _not_imported(scripts: tuple[str, ...], tree: Tree, paths: Sequence[str]) -> CodeFacts:
    """Return the scripts whose names no other file imports."""
    return CodeFacts(scripts=tuple(sorted(set(scripts) - _imported(tree, paths, scripts))))


def _imported(tree: Tree, paths: Sequence[str], scripts: tuple[str, ...]) -> set[str]:
    """Return the scripts that other files may import.

    A file may import a script if it imports the script's name and is in the same folder or imports the folder's name.
    """
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
    """Return True if the importing file is in the script's folder or imports the folder's name."""
    folder = dirname(script)
    return folder == dirname(importer) or basename(folder).encode() in words
