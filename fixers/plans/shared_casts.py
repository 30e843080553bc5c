"""Find inference code that must change together with the casts of a module that it shares with a training program.

Code that only loads and saves models, such as a script that merges adapters, does not run these casts.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fixers.frame.change import FileChange, Plan
from fixers.frame.modules import Module
from fixers.plans.file_plan import FileOutcome
from fixers.plans.owners import Owners
from fixers.plans.programs import programs_at

CASTS = re.compile(rb"\.(?:to|type)\([^\n]*float16|\.half\(\)")
MODEL = re.compile(rb"model", re.IGNORECASE)


SAVES = re.compile(rb"\bsave_pretrained\(|\btorch\.save\(|\bsave_(?:file|model)\(|\bpush_to_hub\(")
COMPUTES = re.compile(rb"\bmodel(?:\.module)?\(|\.(?:generate|forward|evaluate)\(|no_grad|inference_mode|\bautocast\(")
"""Match code that saves weights (SAVES), and code that computes with a model (COMPUTES)."""


def using_changed_casts(outside: Iterable[FileChange], kept: Iterable[FileChange], owners: Owners) -> frozenset[str]:
    """Of the changed files outside of the programs, return those that reach the changed casts of another module.

    The module computes in float16 in these files too, so their own casts must not stay in bfloat16.
    """
    return _reaching([each.path for each in outside], kept, owners, owners.modules)


def with_scripts(
    plan: Plan, scripts: Sequence[Module], owners: Owners, plan_script: Callable[[str], FileOutcome]
) -> Plan:
    """Return the plan with the changes of scripts that never train, but reach the changed casts of a module."""
    kept = [each for each in plan.changes if isinstance(each, FileChange)]
    reaching = _reaching([each.path for each in scripts], kept, owners, (*owners.modules, *scripts))
    outcomes = {path: plan_script(path) for path in sorted(reaching)}
    changed = {path: each.change for path, each in outcomes.items() if each.change is not None}
    findings = tuple(finding for path in changed for finding in outcomes[path].findings)
    skipped = tuple(place for path in changed for place in outcomes[path].skipped)
    left = tuple(each for each in plan.skipped if each.where not in changed)
    return replace(plan.plus(Plan(findings, tuple(changed.values()))), skipped=left + skipped)


def _reaching(
    paths: Iterable[str], kept: Iterable[FileChange], owners: Owners, modules: Sequence[Module]
) -> frozenset[str]:
    """Return those of the paths whose code computes with a model, and reaches a changed cast of another module."""
    casting = [each for each in kept if each.path.endswith(".py") and _changes_casts(each)]
    naming = [each for each in paths if casting and _computes(owners.read(each))]
    return frozenset(
        program.entry
        for program in programs_at(naming, modules)
        if any(each.path in program.paths and not owners.reach.leaves_out(each, (program,)) for each in casting)
    )


def _computes(text: bytes) -> bool:
    """Return True for code that names a model, unless it only loads and saves models."""
    return MODEL.search(text) is not None and (COMPUTES.search(text) is not None or SAVES.search(text) is None)


def _changes_casts(change: FileChange) -> bool:
    """Return True if a changed line casts a value to float16."""
    before, after = change.before.splitlines(), change.after.splitlines()
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    lines = (line for kind, _, _, start, end in blocks if kind != "equal" for line in after[start:end])
    return any(CASTS.search(line) for line in lines)
