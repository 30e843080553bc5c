"""Choose the attention of each file by the programs that use it: code of other programs does not restrict it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from posixpath import basename, dirname, join

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.code_traits import Traits
from fixers.plans.file_plan import FileOutcome
from fixers.plans.owners import Owners
from fixers.plans.programs import Program
from fixers.plans.subprojects import Subprojects
from fixers.sources.config_files import reads_config
from fixers.sources.flash_only import NOT_REPLACED, FlashOnly
from fixers.sources.flash_requirements import REQUIRED_IF
from remote.protocol.findings import Finding

ATTENTION = "FlashAttention"
OF_CHECKPOINT = "modeling_"
"""The name of a file with this prefix may be in a checkpoint, whose code is loaded without an import."""


def with_attention_of_programs(
    plan: Plan, owners: Owners, traits: Traits, replan: Callable[[str, Traits], FileOutcome]
) -> Plan:
    """Return the plan in which the attention of each file depends only on the code of the programs that use the file.

    If some of these programs need FlashAttention, only the others count: they run on this card. A file that no training
    program uses depends only on itself. `replan` plans a file with other traits.
    """
    if not (traits.flash_only or traits.without_sdpa):
        return plan
    loaded, subprojects = _of_checkpoints(owners, traits), Subprojects(owners)
    kept = {path_of(each) for each in plan.findings if is_kept(each)}
    for path in sorted(kept | _replacing(plan)):
        used = _used_with(path, owners, traits)
        seen = traits.attention_of(subprojects.of_user(path, loaded) | (used or {path}))
        stays_elsewhere = path in kept and seen.flash_only != traits.flash_only
        if stays_elsewhere or (used and seen.other_attention != traits.other_attention):
            plan = with_outcome(plan, path, replan(path, seen))
    return plan


def _of_checkpoints(owners: Owners, traits: Traits) -> set[str]:
    """Return the files of checkpoints that restrict the attention: `modeling_*.py` that no program imports.

    Files in packages are excluded.
    """
    reached = {path for program in owners.programs for path in program.paths}
    restricting = {each.path for each in traits.flash_only} | {*traits.without_sdpa}
    unreached = [path for path in restricting - reached if basename(path).startswith(OF_CHECKPOINT)]
    files = set(owners.tree.paths()) if unreached else set()
    return {path for path in unreached if join(dirname(path), "__init__.py") not in files}


def _used_with(path: str, owners: Owners, traits: Traits) -> set[str]:
    """Return the files of the programs that use this file, without those that need FlashAttention."""
    own = owners.of_existing(path)
    free = [each for each in own if not any(needed_places(each, traits, (path,)))]
    return {each for program in free or own for each in program.paths}


def needed_places(program: Program, traits: Traits, selecting: Iterable[str]) -> Iterator[FlashOnly]:
    """Yield the places of the program that fail if one of these files selects another attention by its name.

    A place that fails under a condition does not count for a config, because other configs may not meet the condition.
    """
    places = [each for each in traits.flash_only if each.path in program.paths and not each.switch]
    for path in selecting:
        always = (each for each in places if each.why != REQUIRED_IF) if reads_config(path) else places
        yield from (place for place in always if place.breaks(path, ""))


def replaces_flash(change: FileChange) -> bool:
    return any(ATTENTION in line for line in change.why)


def is_kept(finding: Finding) -> bool:
    """Return True for a warning that FlashAttention is not replaced, because code fails without FlashAttention."""
    return finding.message.startswith(NOT_REPLACED)


def _replacing(plan: Plan) -> set[str]:
    """Return the files in which FlashAttention is replaced."""
    changes = (each for each in plan.changes if isinstance(each, FileChange))
    return {each.path for each in changes if replaces_flash(each)}


def with_outcome(plan: Plan, path: str, outcome: FileOutcome) -> Plan:
    """Return the plan with the new change of the file, and the new warnings about its attention."""
    others = (each for each in plan.changes if not (isinstance(each, FileChange) and each.path == path))
    changes: Iterable[FileChange | HostChange] = (*others, outcome.change) if outcome.change else others
    findings = tuple(each for each in plan.findings if not (is_kept(each) and path_of(each) == path))
    findings += tuple(each for each in outcome.findings if is_kept(each))
    skipped = tuple(dict.fromkeys((*plan.skipped, *outcome.skipped)))
    return replace(plan, changes=tuple(sorted(changes, key=_path)), findings=findings, skipped=skipped)


def path_of(finding: Finding) -> str:
    return finding.where.partition(":")[0]


def _path(change: FileChange | HostChange) -> str:
    return change.path if isinstance(change, FileChange) else ""
