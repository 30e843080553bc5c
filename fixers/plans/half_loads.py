"""Cast the weights of models to float32 that another file of the program loads in float16 only after the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from posixpath import basename

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.target import Target
from fixers.plans.file_plan import FileOutcome
from fixers.plans.owners import Owners
from fixers.sources.file_roles import half_models_in

CASTING = "trainable-fp32"
"""The fixer that reads `CodeFacts.half_models`."""


def with_planned_half_loads(
    plan: Plan, owners: Owners, target: Target, replan: Callable[[str, Target], FileOutcome]
) -> tuple[Plan, Target]:
    """Return the plan in which files cast what a planned change loads in float16, and the target with these loads.

    `replan` plans a file for another target.
    """
    changes = [each for each in plan.changes if isinstance(each, FileChange) and each.path.endswith(".py")]
    new = {each.path: names for each in changes if (names := _new_half_models(each))}
    if not new:
        return plan, target
    facts = target.code_facts
    loading = tuple(f"{path}:{name}" for path, names in new.items() for name in sorted(names))
    named = {basename(path) for path in new} - {"__init__.py"}
    namesakes = (path for path in owners.tree.paths() if basename(path) in named and not path.startswith(facts.copies))
    half_models = tuple(sorted({*facts.half_models, *loading}))
    facts = replace(facts, half_models=half_models, namesakes=tuple(sorted({*facts.namesakes, *namesakes})))
    target = replace(target, code_facts=facts)
    for path in sorted(set(_training_with(new, owners))):
        plan = _with_outcome(plan, path, replan(path, target))
    return plan, target


def _new_half_models(change: FileChange) -> set[str]:
    return {*half_models_in(change.after)} - {*half_models_in(change.before)}


def _training_with(new: dict[str, set[str]], owners: Owners) -> Iterator[str]:
    """Yield the files that train and contain the name of a new half-precision model, in the programs of its file."""
    for path, names in new.items():
        words = [name.encode() for name in names]
        for program in owners.programs:
            for module in program.modules if path in program.paths else ():
                if module.trains and any(word in owners.read(module.path) for word in words):
                    yield module.path


def _with_outcome(plan: Plan, path: str, outcome: FileOutcome) -> Plan:
    """Return the plan with the new change of the file, and the new warnings about its trained weights."""
    others = (each for each in plan.changes if not (isinstance(each, FileChange) and each.path == path))
    changes: Iterable[FileChange | HostChange] = (*others, outcome.change) if outcome.change else others
    cast = (each for each in outcome.findings if each.check == CASTING and each not in plan.findings)
    return replace(plan, changes=tuple(changes), findings=(*plan.findings, *cast))
