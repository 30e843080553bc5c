"""Planning: source fixers composed per file, each seeing what the one before it left; setup fixers after them."""

from __future__ import annotations

import difflib
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.findings import warning
from fixers.frame.fixed_tree import as_planned
from fixers.frame.own_settings import OwnSettings, judge_source, merge_own
from fixers.frame.site import Fixer, Site, Tree
from fixers.frame.source_fixer import SourceFixer
from fixers.frame.target import Target
from fixers.frame.target_of import target_of
from fixers.plans.file_plan import FileOutcome, plan_file
from fixers.plans.memory import Digested, Memory, our_code, question_of
from fixers.registry import setup_fixers, source_fixers
from remote.errors import BadUsage
from remote.protocol.findings import Finding

PURE_LEAVES = {"trainable-fp32"}
OFF = ("off", False, "never")
"""`off` (which YAML reads as False) waits until a failure asks for the fixer; `never` means not even then."""


def plan_fixes(site: Site, *, only: Iterable[str] | None = None) -> Plan:
    """Everything the chosen fixers would change at the site, one FileChange per file. Raises BadUsage."""
    chosen = chosen_names(site, only)
    target = replace(target_of(site), own=_own_settings(site.tree))
    sources = [fixer for fixer in source_fixers() if fixer.name in chosen and applies(fixer, target)]
    setups = [fixer for fixer in setup_fixers() if fixer.name in chosen]
    rewrites = _plan_sources(site, sources, target)
    return one_change_each(rewrites.and_also(_plan_setups(replace(site, tree=as_planned(site.tree, rewrites)), setups)))


def one_change_each(plan: Plan) -> Plan:
    """What a setup fixer makes of a file that source fixers changed before it is one change with theirs."""
    changes: dict[str, FileChange | HostChange] = {}
    for at, change in enumerate(plan.changes):
        key = change.path if isinstance(change, FileChange) else f"{at} {change.op}"
        earlier = changes.get(key)
        changes[key] = _after(earlier, change) if isinstance(earlier, FileChange) else change
    return Plan(
        plan.findings, tuple(c for c in changes.values() if not isinstance(c, FileChange) or c.before != c.after)
    )


def _after(first: FileChange, second: FileChange | HostChange) -> FileChange:
    assert isinstance(second, FileChange)
    fixers, why = {**first.fixers, **second.fixers}, (*first.why, *second.why)
    return FileChange(first.path, first.before, second.after, fixers, why)


def chosen_names(site: Site, only: Iterable[str] | None) -> set[str]:
    """The fixers to ask: those named (and those they bring), or all; never one that the config has turned off.

    Where pure float16 is asked for, trainables stay float16 too.
    """
    known = {fixer.name for fixer in source_fixers()} | {fixer.name for fixer in setup_fixers()}
    named = known if only is None else set(only)
    if unknown := sorted(named - known):
        near = difflib.get_close_matches(unknown[0], known, n=1)
        instead = (unknown[0], near[0]) if near else None
        raise BadUsage(f"no fixer is called {unknown[0]!r}", where="--only", hint="pipeline explain", instead=instead)
    named = named | set(brought_by(named))
    refused = {name for name in named if site.settings.get(name) in OFF}
    return named - refused - (PURE_LEAVES if site.config.get("precision") == "fp16-pure" else set())


def brought_by(named: Iterable[str]) -> dict[str, str]:
    """The fixers that come along unasked, each with the one whose work would be wrong without it."""
    asked = set(named)
    return {
        brought: fixer.name
        for fixer in source_fixers()
        if fixer.name in asked
        for brought in fixer.brings
        if brought not in asked
    }


def applies(fixer: SourceFixer, target: Target) -> bool:
    """The fixer does not depend on a card, or the card is known and old enough."""
    return fixer.below is None or target.below(fixer.below)


def _plan_sources(site: Site, fixers: Sequence[SourceFixer], target: Target) -> Plan:
    changes: list[FileChange] = []
    findings: list[Finding] = []
    with _uncollected():
        for outcome in _outcomes(site, fixers, target):
            findings += outcome.findings
            changes += [outcome.change] if outcome.change else []
    return Plan(tuple(findings), tuple(changes))


def _own_settings(tree: Tree) -> OwnSettings:
    """What the project's Python files read of its settings. A file that cannot be read is named when it is planned."""
    paths = [path for path in tree.paths() if path.endswith(".py")]
    memory = Memory.of(tree.root, f"own-{our_code()}") if isinstance(tree, Digested) else None
    parts: list[OwnSettings] = []
    for path in paths:
        with suppress(OSError):
            parts.append(_own_settings_of(tree, memory, path))
    if memory is not None:
        memory.save()
    return merge_own(parts)


def _own_settings_of(tree: Tree, memory: Memory | None, path: str) -> OwnSettings:
    """A file with the bytes of the last time is not read again."""
    if memory is None or not isinstance(tree, Digested):
        return judge_source(tree.read(path))
    digest = tree.digest(path)
    own = memory.recall_own(path, digest)
    if own is None:
        own = judge_source(tree.read(path))
        memory.remember_own(path, digest, own)
    return own


def _outcomes(site: Site, fixers: Sequence[SourceFixer], target: Target) -> Iterator[FileOutcome]:
    paths = [path for path in sorted(site.tree.paths()) if any(fixer.matches(path) for fixer in fixers)]
    tree = site.tree
    if not isinstance(tree, Digested):
        yield from (_readable(path, lambda path: plan_file(path, tree.read(path), fixers, target)) for path in paths)
        return
    memory = Memory.of(tree.root, question_of(fixers, target))
    yield from (_readable(path, lambda path: _remembered(tree, memory, path, fixers, target)) for path in paths)
    memory.save()


def _readable(path: str, plan: Callable[[str], FileOutcome]) -> FileOutcome:
    """The outcome, or that the file cannot be read."""
    try:
        return plan(path)
    except OSError as error:
        message = f"cannot be read: {error.strerror}; not checked"
        return FileOutcome(None, (warning("unreadable-source", message, path),))


def _remembered(
    tree: Digested, memory: Memory, path: str, fixers: Sequence[SourceFixer], target: Target
) -> FileOutcome:
    """A file with the bytes of the last time, and the same question, has the outcome of the last time."""
    known = memory.recall(path, tree.digest(path), tree)
    if known is not None:
        return known
    data = tree.read(path)
    outcome = plan_file(path, data, fixers, target)
    memory.remember(path, data, outcome)
    return outcome


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection meanwhile: trees are many objects, and none of them is garbage until its file is done."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _plan_setups(site: Site, fixers: Sequence[Fixer]) -> Plan:
    plan = Plan()
    for fixer in fixers:
        plan = plan.and_also(fixer.plan(site))
    return plan
