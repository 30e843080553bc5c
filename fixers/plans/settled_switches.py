"""Find switches of FlashAttention that select another attention after the plan: such a switch stays as it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
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
from fixers.sources.python import TREES, PythonSource
from fixers.sources.unparsable import Unparsable

SWITCH = re.compile(rb"(?:use[_-])?flash[_-](?:attn|attention)(?:[_-]2)?(?![\w-])", re.IGNORECASE)


def without_settled_switches(
    plan: Plan, owners: Owners, traits: Traits, replan: Callable[[str, Traits], FileOutcome]
) -> Plan:
    """Return the plan without changes of switches that select no FlashAttention after the plan.

    `"sdpa" if args.use_flash_attn else None` is such a switch. If it were off, the checkpoint would choose the
    attention. `replan` plans a file with other traits.
    """
    changes = {each.path: each for each in plan.changes if isinstance(each, FileChange)}
    for path, change in changes.items():
        names = sorted({_name(each) for each in SWITCH.findall(change.before)}) if replaces_flash(change) else []
        programs = owners.of_existing(path) if names else ()
        settled = [
            name for name in names if programs and all(_settles(each, name, changes, owners) for each in programs)
        ]
        if settled:
            plan = with_outcome(plan, path, replan(path, replace(traits, settled_switches=tuple(settled))))
    return plan


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
