"""Plan the fixes of a site: all source fixers in order for each file, then the setup fixers."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.code_traits import Traits
from fixers.frame.findings import warning
from fixers.frame.fixed_tree import as_planned
from fixers.frame.modules import Module
from fixers.frame.scope import is_outside
from fixers.frame.site import Fixer, Site, Tree
from fixers.frame.source_fixer import SourceFixer
from fixers.frame.target import Target
from fixers.frame.target_of import target_of
from fixers.plans.chosen_fixers import chosen_names
from fixers.plans.code_doubts import report_unscaled
from fixers.plans.dependent_edits import plan_dependent
from fixers.plans.documented_commands import CHECK, documents_with_bfloat16, report_documents
from fixers.plans.file_facts import FileFacts, read_files
from fixers.plans.file_plan import FileOutcome, judge_too_large, plan_again, plan_file
from fixers.plans.half_loads import with_planned_half_loads
from fixers.plans.in_processes import in_processes
from fixers.plans.inference_code import ONLY_INFERENCE, find_inference_code
from fixers.plans.kept_proof import proved_once
from fixers.plans.merged_changes import one_change_each
from fixers.plans.offer import Offer
from fixers.plans.own_code import read_code_facts
from fixers.plans.passed_options import find_passed_options
from fixers.plans.plan_cache import Digested, PlanCache, cache_key
from fixers.plans.program_attention import with_attention_of_programs
from fixers.plans.programs import Program
from fixers.plans.proof import Proof
from fixers.plans.proved import owners_of, prove
from fixers.plans.settled_switches import without_settled_switches
from fixers.plans.shared_casts import with_scripts
from fixers.plans.uncalled import NOT_CALLED, find_uncalled
from fixers.plans.unnamed_files import without_unnamed
from fixers.plans.untaken_branches import UNTAKEN, find_untaken, may_be_untaken
from fixers.plans.unused_defaults import find_unused_defaults
from fixers.plans.withheld_findings import without_planned_half
from fixers.plans.without_gc import without_gc
from fixers.registry import setup_fixers, source_fixers
from fixers.sources.option_defaults import UNUSED_DEFAULT
from fixers.sources.python import TREES
from fixers.sources.readers.consumers import Consumers

NEED_SCALE = {"bf16-to-fp16", "trainable-fp32", "scaler-gate", "mixed-precision-config", "launch-flags"}
"""Fixers that are not applied to a loop without a loss scale, because its float16 gradients would underflow."""
OF_PRECISION = {
    *("bf16-probe", "bf16-to-fp16", "mixed-precision-config", "launch-flags", "attention-to-sdpa", "scaler-gate"),
    *("loss-fp32", "trainable-fp32"),
}
"""Fixers whose changes belong together: a program gets all these changes or none."""


def plan_fixes(site: Site, *, only: Iterable[str] | None = None) -> Plan:
    """Plan the chosen fixers, one FileChange per file. Raises BadUsage for unknown names.

    A training program gets every change of its precision or none: see `fixers.plans.proved`.
    """
    with without_gc():
        try:
            chosen = chosen_names(site, only)
            offer = plan_offers(site, chosen)
            TREES.clear()  # the proof reads other files
            rewrites = without_unnamed(proved_once(site, offer, partial(_proved, offer)), site)
            setups = [fixer for fixer in setup_fixers() if fixer.name in chosen]
            fixed = replace(site, tree=as_planned(site.tree, rewrites))
            return one_change_each(rewrites.plus(_plan_setups(fixed, setups)))
        finally:
            TREES.clear()


def plan_offers(site: Site, chosen: Collection[str]) -> Offer:
    """Plan the changes of the chosen source fixers for each file, even if no program is proved to work with them."""
    files = read_files(site.tree)
    target = full_target(site, files)
    sources = [fixer for fixer in source_fixers() if fixer.name in chosen and applies(fixer, target)]
    plan, target = _offered(site, files, sources, target)
    return Offer(plan, target, files, sources)


def _offered(
    site: Site, files: Sequence[FileFacts], sources: Sequence[SourceFixer], target: Target
) -> tuple[Plan, Target]:
    """Return the plan of each file, and the target with the values that the readers of this plan accept."""
    loops = target.code_facts.traits.unscaled_loops if any(fixer.name == "bf16-to-fp16" for fixer in sources) else ()
    sources = _applicable(sources, target)

    def plan_with(consumers: Consumers) -> Plan:
        return _plan_sources(site.tree, files, sources, _with_consumers(target, consumers))

    plan, consumers = plan_dependent(target.code_facts.consumers, plan_with)
    return plan.plus(Plan(tuple(map(report_unscaled, loops)))), _with_consumers(target, consumers)


def _proved(offer: Offer, site: Site) -> Plan:
    """Return the plan without precision changes of programs that are not proved. Other changes of a file are kept."""
    fixers, target, plan, found = offer.sources, offer.target, offer.plan, offer.modules
    precise = {fixer.name for fixer in fixers if fixer.name in OF_PRECISION}
    modules = [each for each in found if not is_outside(each, target)]
    plan, target = _without_untaken(site, fixers, target, modules, plan)
    uncalled = find_uncalled(_files(plan), site.tree, modules)
    target = replace(target, code_facts=replace(target.code_facts, uncalled=uncalled))
    plan = plan_again(site.tree, uncalled, NOT_CALLED, _applicable(fixers, target), target, plan)
    documents = _documents(site, precise, target)
    if not _files(_of_fixers(plan, precise)):
        programs = owners_of(plan, modules, target, site.tree).programs if documents else ()
        return plan.plus(_report(documents, programs, plan, target, site.tree))
    owners = owners_of(_of_fixers(plan, precise), modules, target, site.tree)
    inferring = find_inference_code(_files(_of_fixers(plan, precise)), owners, _scripts(found, target))
    target = replace(target, code_facts=replace(target.code_facts, only_inference=inferring))
    plan = plan_again(site.tree, inferring, ONLY_INFERENCE, _applicable(fixers, target), target, plan)
    changes = _files(_of_fixers(plan, precise))
    passed = find_passed_options(changes, owners, target.code_facts.traits.launched)
    unused = (*find_unused_defaults(changes, owners), *passed)
    target = replace(target, code_facts=replace(target.code_facts, unused_defaults=unused))
    plan = plan_again(site.tree, unused, UNUSED_DEFAULT, _applicable(fixers, target), target, plan)
    owners = owners_of(_of_fixers(plan, precise), modules, target, site.tree) if inferring or unused else owners

    plan_at = partial(_plan_at, site.tree, fixers)
    plan, target = with_planned_half_loads(plan, owners, target, plan_at)

    def replan(path: str, traits: Traits) -> FileOutcome:
        return plan_at(path, replace(target, code_facts=replace(target.code_facts, traits=traits)))

    plan = with_attention_of_programs(plan, owners, target.code_facts.traits, replan)
    plan = without_settled_switches(plan, owners, target.code_facts.traits, replan)
    named = _of_fixers(plan, precise)
    proof = prove(named, owners, target, for_run=bool(site.config))
    plan = _with_proof(site, plan, named, proof, fixers, target)
    able = [each for each in owners.programs if each.entry not in proof.doubted]
    plan = plan.plus(_report(documents, able, plan, target, site.tree))
    scripts = _scripts(found, target)
    trained = replace(target, code_facts=replace(target.code_facts, scripts=()))
    plan = with_scripts(plan, scripts, owners, partial(plan_at, target=trained))
    return replace(plan, changes=tuple(sorted(plan.changes, key=_path)))


def _plan_at(tree: Tree, fixers: Sequence[SourceFixer], path: str, target: Target) -> FileOutcome:
    return plan_file(path, tree.read(path), _applicable(fixers, target), target)


def _with_proof(
    site: Site, plan: Plan, named: Plan, proof: Proof, fixers: Sequence[SourceFixer], target: Target
) -> Plan:
    """Return the plan without the withheld changes, and with the findings of the proof. `named`: the precise ones."""
    kept: list[FileChange | HostChange] = []
    for change in plan.changes:
        without = proof.withholds(_path(change), OF_PRECISION) if change in named.changes else set()
        kept += _without(site, change, without, [each for each in fixers if each.name not in without], target)
    found = (each for each in plan.findings if each not in proof.repeated)
    findings = without_planned_half(found, proof.withheld, site.tree, fixers, target)
    return Plan(findings + proof.findings, tuple(kept), plan.skipped + proof.skipped)


def _documents(site: Site, precise: Collection[str], target: Target) -> tuple[str, ...]:
    """Return the documents that start scripts in bfloat16. With a config, documents do not start the training."""
    launched = target.code_facts.traits.launched
    return () if site.config or CHECK not in precise else documents_with_bfloat16(launched, site.tree.read)


def _report(documents: Iterable[str], programs: Sequence[Program], plan: Plan, target: Target, tree: Tree) -> Plan:
    """Return the warnings about documents with bfloat16, without those documents that have a warning already."""
    known = {each.where.partition(":")[0] for each in plan.findings}
    documents = [each for each in documents if each not in known]
    return Plan(report_documents(documents, target.code_facts.traits.launched, programs, tree.read))


def _without_untaken(
    site: Site, fixers: Sequence[SourceFixer], target: Target, modules: Sequence[Module], plan: Plan
) -> tuple[Plan, Target]:
    """Return the plan without changes of branches that no training takes, and the target with these branches."""
    if not may_be_untaken(_files(plan)):
        return plan, target
    owners = owners_of(plan, modules, target, site.tree)
    untaken = find_untaken(_files(plan), owners, target.code_facts.traits.launched)
    target = replace(target, code_facts=replace(target.code_facts, untaken=untaken))
    return plan_again(site.tree, untaken, UNTAKEN, _applicable(fixers, target), target, plan), target


def _of_fixers(plan: Plan, names: set[str]) -> Plan:
    findings = tuple(each for each in plan.findings if each.check in names)
    return replace(plan, findings=findings, changes=tuple(e for e in plan.changes if names & _fixers_of(e)))


def _scripts(found: Sequence[Module], target: Target) -> list[Module]:
    """Return the scripts that never train."""
    return [each for each in found if each.path in target.code_facts.scripts and is_outside(each, target)]


def _files(plan: Plan) -> list[FileChange]:
    return [each for each in plan.changes if isinstance(each, FileChange)]


def _applicable(fixers: Sequence[SourceFixer], target: Target) -> Sequence[SourceFixer]:
    """Return the fixers, without those of NEED_SCALE if a training loop of the project has no loss scale."""
    loops = target.code_facts.traits.unscaled_loops and any(fixer.name == "bf16-to-fp16" for fixer in fixers)
    return [fixer for fixer in fixers if fixer.name not in NEED_SCALE] if loops else fixers


def _without(
    site: Site, change: FileChange | HostChange, withheld: set[str], fixers: Sequence[SourceFixer], target: Target
) -> list[FileChange | HostChange]:
    """Return the change to the file without the edits of the withheld fixers."""
    if not _fixers_of(change) & withheld:
        return [change]
    if _fixers_of(change) <= withheld:
        return []
    outcome = plan_file(_path(change), site.tree.read(_path(change)), fixers, target)
    return [outcome.change] if outcome.change else []


def _path(change: FileChange | HostChange) -> str:
    return change.path if isinstance(change, FileChange) else ""


def _fixers_of(change: FileChange | HostChange) -> set[str]:
    return set(change.fixers) if isinstance(change, FileChange) else set()


def _with_consumers(target: Target, consumers: Consumers) -> Target:
    return replace(target, code_facts=replace(target.code_facts, consumers=consumers))


def full_target(site: Site, files: Sequence[FileFacts]) -> Target:
    """Return the target with the settings that the project's own code reads."""
    target = target_of(site)
    return replace(target, code_facts=read_code_facts(site.tree, files, target.started))


def applies(fixer: SourceFixer, target: Target) -> bool:
    """Return True if the fixer is independent of the card, or the card is below the fixer's compute capability."""
    return fixer.below is None or target.below(fixer.below)


def _plan_sources(tree: Tree, files: Sequence[FileFacts], fixers: Sequence[SourceFixer], target: Target) -> Plan:
    names = {fixer.name for fixer in fixers}
    outcomes = _outcomes(tree, [each for each in files if names.intersection(each.fixer_names)], fixers, target)
    return Plan(
        tuple(finding for each in outcomes for finding in each.findings),
        tuple(each.change for each in outcomes if each.change),
        tuple(place for each in outcomes for place in each.skipped),
    )


def _outcomes(
    tree: Tree, files: Sequence[FileFacts], fixers: Sequence[SourceFixer], target: Target
) -> list[FileOutcome]:
    """Return the outcomes of the files, in order. The outcomes of unchanged files come from the cache."""
    if not isinstance(tree, Digested):
        return [outcome for _, outcome in in_processes(partial(_planned, tree, fixers, target), files)]
    cache = PlanCache.of(tree.root, cache_key(fixers, target))
    outcomes = {each.path: cache.find(each.path, each.digest, tree) for each in files}
    missing = [each for each in files if outcomes[each.path] is None]
    for each, (digest, outcome) in zip(
        missing, in_processes(partial(_planned, tree, fixers, target), missing), strict=True
    ):
        outcomes[each.path] = outcome
        if digest:
            cache.store(each.path, digest, outcome)
    cache.save()
    return [outcome for outcome in outcomes.values() if outcome is not None]


def _planned(tree: Tree, fixers: Sequence[SourceFixer], target: Target, file: FileFacts) -> tuple[str, FileOutcome]:
    """Return the file's digest and its outcome. For an unreadable file, return an empty digest and a warning."""
    try:
        data = tree.read(file.path)
    except OSError as error:
        if error.errno == errno.EFBIG:
            return "", FileOutcome(None, (judge_too_large(file.path, str(error.strerror)),))
        message = f"cannot be read: {error.strerror}; not checked"
        return "", FileOutcome(None, (warning("unreadable-source", message, file.path),))
    return hashlib.sha256(data).hexdigest(), plan_file(file.path, data, fixers, target)


def _plan_setups(site: Site, fixers: Sequence[Fixer]) -> Plan:
    plan = Plan()
    for fixer in fixers:
        plan = plan.plus(fixer.plan(site))
    return plan
