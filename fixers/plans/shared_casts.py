"""Find inference code that must change together with the casts of a module that it shares with a training program."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from fixers.frame.change import FileChange
from fixers.plans.owners import Owners
from fixers.plans.programs import programs_at

CASTS = re.compile(rb"\.(?:to|type)\([^\n]*float16|\.half\(\)")
MODEL = re.compile(rb"model", re.IGNORECASE)


def using_changed_casts(outside: Iterable[FileChange], kept: Iterable[FileChange], owners: Owners) -> frozenset[str]:
    """Of the changed files outside of the programs, return those that reach the changed casts of another module.

    The module computes in float16 in these files too, so their own casts must not stay in bfloat16.
    """
    casting = [each for each in kept if each.path.endswith(".py") and _changes_casts(each)]
    naming = [each.path for each in outside if MODEL.search(each.before)]
    programs = programs_at(naming, owners.modules) if casting else ()
    return frozenset(
        program.entry
        for program in programs
        if any(each.path in program.paths and not owners.reach.leaves_out(each, (program,)) for each in casting)
    )


def _changes_casts(change: FileChange) -> bool:
    """Return True if a changed line casts a value to float16."""
    before, after = change.before.splitlines(), change.after.splitlines()
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    lines = (line for kind, _, _, start, end in blocks if kind != "equal" for line in after[start:end])
    return any(CASTS.search(line) for line in lines)
