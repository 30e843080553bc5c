"""Find settings of FlashAttention that have no effect, or select another attention after the plan: they stay."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from fixers.frame.change import FileChange, Plan
from fixers.frame.code_traits import Traits
from fixers.plans.file_plan import FileOutcome
from fixers.plans.owners import PYTHON, Owners
from fixers.plans.program_attention import replaces_flash, with_outcome
from fixers.plans.programs import Program
from fixers.sources.attention_choice import RUNS_ANYWHERE
from fixers.sources.chosen_words import constant_of
from fixers.sources.flash_defaults import FLASH
from fixers.sources.launched import scripts_of
from fixers.sources.python import TREES, PythonSource
from fixers.sources.unparsable import Unparsable

REFLECTS = re.compile(rb"\b(?:asdict|astuple|vars|getattr|attrgetter|fields)\(|__dict__|model_dump")
"""Matches code that may read every field of an object."""
ARGUMENTS = re.compile(r"transformers\.(?:\w+\.)*\w*TrainingArguments")
SWITCH = re.compile(rb"(?:use[_-])?flash[_-](?:attn|attention)(?:[_-]2)?(?![\w-])", re.IGNORECASE)


def without_settled_switches(
    plan: Plan, owners: Owners, traits: Traits, replan: Callable[[str, Traits], FileOutcome]
) -> Plan:
    """Return the plan without changes of switches that select no FlashAttention after the plan.

    `"sdpa" if args.use_flash_attn else None` is such a switch. If it were off, the checkpoint would choose the
    attention. Other such settings are fields that no code reads, and defaults of options that every command passes.
    `replan` plans a file with other traits.
    """
    changes = {each.path: each for each in plan.changes if isinstance(each, FileChange)}
    for path, change in changes.items():
        programs = owners.of_existing(path) if replaces_flash(change) else ()
        names = sorted({_name(each) for each in SWITCH.findall(change.before)}) if programs else []
        settled = [name for name in names if all(_settles(each, name, changes, owners) for each in programs)]
        unused = [*_unread_fields(change, owners), *_passed(change, programs, owners, traits)] if programs else []
        if settled or unused:
            seen = replace(traits, settled_switches=tuple(settled), unused_defaults=tuple(unused))
            plan = with_outcome(plan, path, replan(path, seen))
    return plan


def _passed(change: FileChange, programs: Sequence[Program], owners: Owners, traits: Traits) -> list[str]:
    """Return the options of a Python file that every command and document which starts its programs passes."""
    entries = tuple(each.entry for each in owners.programs)
    own = {each.entry for each in programs}
    launches = [each for each in traits.launched if own.intersection(scripts_of(each, entries))]
    started = {entry for each in launches for entry in scripts_of(each, entries)}
    if not change.path.endswith(PYTHON) or not own <= started or any(each.started for each in programs):
        return []
    passed = frozenset.intersection(*(frozenset(each.options) for each in launches))
    return sorted(name for name in passed if re.search(r"flash|attn|attention", name))


def _unread_fields(change: FileChange, owners: Owners) -> list[str]:
    """Return the fields with FlashAttention as their default that no program of the file reads.

    A class with a base class of the project does not count, because the base may read its fields.
    """
    programs = owners.of_existing(change.path)
    paths = {path for each in programs for path in each.paths if path.endswith(PYTHON)}
    texts = [_after(path, {}, owners) for path in paths]
    if not programs or any(map(REFLECTS.search, texts)):
        return []
    with suppress(Unparsable):
        names = dict.fromkeys(_flash_fields(TREES.read(change.path, change.before)))
        return [each for each in names if sum(len(re.findall(rb"\b%b\b" % each.encode(), text)) for text in texts) == 1]
    return []


def _flash_fields(source: PythonSource) -> Iterator[str]:
    known = (owner for owner in source.names.of_type(ast.ClassDef) if all(_ignores(source, e) for e in owner.bases))
    for each in (field for owner in known for field in owner.body):
        match each:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if FLASH in source.segment(value):
                yield name


def _ignores(source: PythonSource, base: ast.expr) -> bool:
    """Return True for the arguments of Trainer, which read no field of a subclass that concerns the attention."""
    return ARGUMENTS.fullmatch(source.names.meaning(base) or "") is not None


def _settles(program: Program, name: str, changes: Mapping[str, FileChange], owners: Owners) -> bool:
    """Return True if the program reads the switch, and selects another attention wherever it does."""
    texts = {path: _after(path, changes, owners) for path in program.paths if path.endswith(PYTHON)}
    naming = {path: text for path, text in texts.items() if name.encode() in text}
    with suppress(Unparsable):
        sources = [TREES.read(path, text) for path, text in naming.items()]
        found = [each for source in sources for each in _readings(source, name)]
        return bool(found) and all(found)
    return False


def _after(path: str, changes: Mapping[str, FileChange], owners: Owners) -> bytes:
    with suppress(OSError):
        return changes[path].after if path in changes else owners.read(path)
    return b""


def _readings(source: PythonSource, name: str) -> Iterator[bool]:
    """Yield, for each place that reads the switch, whether it selects an attention that runs on every card."""
    for node in source.names.nodes:
        match node:
            case ast.Attribute(attr=read, ctx=ast.Load()) | ast.Name(id=read, ctx=ast.Load()) if read == name:
                above = source.names.parent(node)
                yield isinstance(above, ast.IfExp) and above.test is node and constant_of(above.body) in RUNS_ANYWHERE
            case ast.Constant(value=text) if text == name:
                yield False


def _name(switch: bytes) -> str:
    return switch.decode().replace("-", "_").lower()
