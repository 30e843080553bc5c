"""Keep precision changes only in training programs that are proved to work with them.

A program is a script with everything that it imports, the commands that start it, and the configs that it reads. A
program is converted completely or not at all: if one place cannot be converted, or if it is unknown which code reads a
value, the whole program keeps bfloat16. A program that the config of a run starts is converted without this proof,
because `verify` runs it on the card before the training.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import chain

from fixers.code.bf16_forms.loads import WHY_NO_DTYPE
from fixers.code.card_requirements import ASSERTS
from fixers.code.flash_kernel_calls import calls_kernel
from fixers.code.trainable_fp32 import may_train_half
from fixers.frame.change import FileChange, Plan
from fixers.frame.modules import Module, read_module
from fixers.frame.site import Tree
from fixers.frame.target import Target
from fixers.plans.argument_dicts import ArgumentDicts
from fixers.plans.attached_losses import of_attached_losses
from fixers.plans.attention_doubts import of_attention
from fixers.plans.code_doubts import of_code
from fixers.plans.doubts import Doubt, Sharing, entries_of
from fixers.plans.mixed_precision import MixedPrecision
from fixers.plans.overflowing_models import Overflows
from fixers.plans.overridden_configs import without_overridden
from fixers.plans.owners import PYTHON, Owners, commands_naming
from fixers.plans.program_attention import is_kept, path_of
from fixers.plans.programs import Program, find_programs, imports_any, loaded_by
from fixers.plans.proof import Proof, proof_of
from fixers.plans.rejected_commands import rejected_commands
from fixers.plans.scaler_switch import of_scaler_switch
from fixers.plans.shared_casts import using_changed_casts
from fixers.plans.skipped_updates import of_skipped_updates
from fixers.plans.weight_dtypes import of_weights
from fixers.settings.known_formats import is_known_format
from fixers.sources.commands import reads_commands
from fixers.sources.config_files import reads_config
from fixers.sources.flash_only import NOT_REPLACED
from fixers.sources.flash_requirements import REQUIRED_IF
from fixers.sources.launched import files_named, scripts_in, scripts_of
from fixers.sources.source import Source
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding, Severity

HARMLESS = (WHY_NO_DTYPE, ASSERTS)
"""Warnings that do not stop a conversion: autocast computes in float16, regardless of the dtype of frozen weights, and
float16 does not need what an assertion requires."""
UNREAD = "could not be read"
LIGHTNING = frozenset({"lightning", "lightning_fabric", "pytorch_lightning"})
NAME_OF_LIGHTNING = re.compile(rb"\b16-(?:mixed|true)\b")
CALLED = "{where} calls a kernel of it"
RUNS_KERNELS = "{path}:{line} uses it whenever the program starts"


def owners_of(plan: Plan, modules: Sequence[Module], target: Target, tree: Tree) -> Owners:
    """Return the owners of files, among the training programs as they are after the plan."""
    changes = {each.path: each for each in plan.changes if isinstance(each, FileChange)}
    edited = tuple(_changed_module(module, changes) for module in modules)
    launched = target.code_facts.traits.launched
    scripts = {path for each in launched for path in scripts_of(each, [module.path for module in edited])}
    return Owners(tree, find_programs(edited, target.started, scripts), edited)


def prove(plan: Plan, attribution: Owners, target: Target, *, for_run: bool) -> Proof:
    """Return the changes that must be withheld from the plan of the precision fixers.

    With `for_run`, nothing is withheld if the run starts halfstep's built-in trainer and no script of the project.
    """
    changes = {each.path: each for each in plan.changes if isinstance(each, FileChange)}
    tree = attribution.tree
    owners = {path: attribution.of_change(each) for path, each in changes.items()}
    run = {each.entry for each in attribution.programs if _is_started(each, target.started, tree.read)}
    if for_run and not run:
        return Proof()
    attached = _not_started(owners, run)
    warnings = _blocking(plan, attribution, changes)
    mixed = MixedPrecision(attribution, changes, target)
    overflows, dicts = Overflows(attribution.reach, attribution.facts), ArgumentDicts(attribution)
    may_be_half = cache(partial(_may_train_half, changes=changes, target=target, read=tree.read))
    doubts: dict[str, Doubt] = {}
    for program in dict.fromkeys(chain.from_iterable(attached.values())):
        mine = [changes[path] for path, own in attached.items() if program in own]
        of_trained = _half(program, may_be_half)
        replaced = of_attention(program, target.code_facts.traits, mine, attribution)
        of_called = _of_kernel_calls(program, plan, attribution)
        of_flash = _of_kernels(program, target), of_called, warnings.of_flash(program), replaced
        of_options = _unread(program, mine), of_weights(program, mine, target, attribution)
        of_scale = of_trained, mixed.of_trainer(program, mine), overflows.of(program, mine), mixed.of_notebooks(program)
        of_losses = of_scaler_switch(program, attribution), of_attached_losses(program, attribution)
        of_updates = of_skipped_updates(program, attribution, target.code_facts.deepspeed_only)
        of_texts = dicts.of(program), of_code(program, attribution.facts), warnings.of(program, mine)
        doubt = next(chain(*of_flash, *of_texts, *of_options, *of_scale, *of_losses, of_updates), None)
        if doubt is not None:
            doubts[program.entry] = doubt
    shared = {path: own for path, own in attached.items() if path not in warnings.unsuited}
    sharing = Sharing(shared, changes, attribution.read)
    doubts = sharing.with_shared_files(doubts)
    unstarted = _unstarted(doubts, target)
    held_back = sharing.held_back(doubts) | warnings.unsuited | overflows.loading(shared)
    outside = _outside(owners, changes, held_back, attribution)
    launched, entries = target.code_facts.traits.launched, [each.entry for each in attribution.programs]
    rejected = rejected_commands(changes.keys() - held_back - outside, launched, entries, tree.read)
    proof = proof_of(outside, held_back, doubts, warnings.unsuited, unstarted, rejected)
    proof = without_overridden(_of_mixed(proof, mixed, attached, doubts), changes, launched)
    proof = replace(proof, skipped=proof.skipped + overflows.left(shared, doubts))
    probing = mixed.of_probes(held_back, doubts)
    return replace(proof, repeated=warnings.repeated(doubts), probing=probing, doubted=frozenset(doubts))


def _of_mixed(
    proof: Proof, mixed: MixedPrecision, attached: Mapping[str, tuple[Program, ...]], doubts: Collection[str]
) -> Proof:
    """Withhold needless casts to float32, and settings that must agree with a command in a documentation file.

    A cast to float32 is needless in a file whose programs never select float16.
    """
    kept = {path: own for path, own in attached.items() if path not in proof.withheld}
    left = mixed.judge({path: [each for each in own if each.entry not in doubts] for path, own in kept.items()})
    withheld, findings = proof.withheld | left.casts, proof.findings + left.findings
    return replace(
        proof, withheld=withheld, agreeing=left.agreeing, findings=findings, skipped=proof.skipped + left.skipped
    )


def _not_started(owners: Mapping[str, tuple[Program, ...] | None], run: set[str]) -> dict[str, tuple[Program, ...]]:
    return {path: own for path, own in owners.items() if own and not run & entries_of(own)}


@dataclass(frozen=True)
class _Warnings:
    """The warnings that count as doubts, each with the programs that own the file of the warning.

    `flash`: the warnings that FlashAttention is not replaced. `unsuited`: configs of a known format with a warning that
    counts, and configs whose other settings may require FlashAttention. They keep bfloat16 and add no doubt.
    """

    users: tuple[tuple[Finding, tuple[Program, ...]], ...]
    flash: tuple[tuple[Finding, tuple[Program, ...]], ...]
    unsuited: frozenset[str]

    def of(self, program: Program, own: Iterable[FileChange]) -> Iterator[Doubt]:
        yield from (Doubt(each.message, each.where) for each, users in self.users if program in users)
        commands = [each.path for each in own if reads_commands(each.path)]
        if commands and self.unsuited.issuperset(commands):
            yield Doubt(f"its commands, such as {commands[0]}, name configs that stay in bfloat16", commands[0])

    def of_flash(self, program: Program) -> Iterator[Doubt]:
        found = (each for each, users in self.flash if program in users)
        return (Doubt(each.message.removeprefix(NOT_REPLACED), each.where, of_flash=True) for each in found)

    def repeated(self, doubts: Mapping[str, Doubt]) -> frozenset[Finding]:
        """Return the warnings about FlashAttention in files of programs that get a warning with the same reason."""
        needing = {entry for entry, doubt in doubts.items() if doubt.of_flash}
        return frozenset(each for each, users in self.flash if needing & entries_of(users))


def _blocking(plan: Plan, attribution: Owners, changes: Mapping[str, FileChange]) -> _Warnings:
    blocking = [each for each in plan.findings if _blocks(each)]
    read = attribution.read
    unsuited = frozenset(path_of(each) for each in blocking if _has_known_format(path_of(each), read))
    others = ((each, path_of(each)) for each in blocking if path_of(each) not in unsuited)
    users = tuple((each, attribution.of_existing(path)) for each, path in others)
    kept = [each for each in plan.findings if is_kept(each)]
    unsuited |= {path_of(each) for each in kept if REQUIRED_IF in each.message and reads_config(path_of(each))}
    flash = tuple((e, attribution.of_existing(path_of(e))) for e in kept if path_of(e) not in unsuited)
    return _Warnings(users, flash, unsuited | commands_naming(unsuited, changes.values()))


def _outside(
    owners: Mapping[str, tuple[Program, ...] | None],
    changes: Mapping[str, FileChange],
    held_back: frozenset[str],
    attribution: Owners,
) -> frozenset[str]:
    """Return the changed files that no training program uses and that share no changed casts with one."""
    outside = frozenset(path for path, own in owners.items() if own is None)
    kept = (each for path, each in changes.items() if path not in outside | held_back)
    return outside - using_changed_casts([changes[path] for path in outside], kept, attribution)


def _unstarted(doubts: Collection[str], target: Target) -> frozenset[str]:
    """Return the programs that no command or document starts. Return an empty set if none starts any program."""
    launched = target.code_facts.traits.launched
    starting = {path for each in launched for path in scripts_of(each, tuple(doubts))} | {*target.started}
    return frozenset(doubts) - starting if launched else frozenset()


def _is_started(program: Program, started: Sequence[str], read: Callable[[str], bytes]) -> bool:
    """Return True if the config's command starts the program, so that `verify` proves the changes by running it."""
    if program.entry in started:
        return True
    scripts = ((script, path) for path in started if not path.endswith(PYTHON) for script in scripts_in(read(path)))
    return any(files_named(script, path, [program.entry]) for script, path in scripts)


def _changed_module(module: Module, changes: Mapping[str, FileChange]) -> Module:
    return read_module(module.path, changes[module.path].after) if module.path in changes else module


def _has_known_format(path: str, read: Callable[[str], bytes]) -> bool:
    with suppress(OSError):
        return is_known_format(path, read(path))
    return False


def _blocks(finding: Finding) -> bool:
    """Return True if the finding is a doubt about float16 in the program.

    Findings about trained weights are ignored, because `_half` judges these weights. Findings about FlashAttention are
    ignored too: those that stop the program are doubts of their own.
    """
    if (
        finding.severity is Severity.INFO
        or finding.check in {"trainable-fp32", "attention-to-sdpa"}
        or is_kept(finding)
    ):
        return False
    return not finding.message.startswith(HARMLESS) and UNREAD not in finding.message


def _of_kernels(program: Program, target: Target) -> Iterator[Doubt]:
    """Yield a doubt for each module that uses FlashAttention whenever the program starts."""
    needing = [(path, line) for path, line in target.code_facts.traits.needs_flash if path in program.paths]
    loaded = loaded_by(program) if needing else frozenset()
    for path, line in needing:
        if path in loaded:
            yield Doubt(RUNS_KERNELS.format(path=path, line=line), f"{path}:{line}", of_flash=True)


def _of_kernel_calls(program: Program, plan: Plan, attribution: Owners) -> Iterator[Doubt]:
    """Yield a doubt for each reported call of a kernel of FlashAttention in code that the program reaches."""
    for each in filter(calls_kernel, plan.findings):
        path, _, line = each.where.rpartition(":")
        if path in program.paths and attribution.reach.runs_line(program, path, int(line)):
            yield Doubt(CALLED.format(where=each.where), each.where, of_flash=True)


def _unread(program: Program, own: Iterable[FileChange]) -> Iterator[Doubt]:
    """Yield a doubt for each config or command with a float16 value that no known code of the program reads."""
    if any(module.parses or module.half for module in program.modules):
        return
    uses_lightning = imports_any(program, LIGHTNING)
    for change in own:
        known = is_known_format(change.path, change.before) or (uses_lightning and _only_names_of_lightning(change))
        if not change.path.endswith(PYTHON) and not known:
            yield Doubt(f"no code in it is known to read float16 from {change.path}", change.path)


def _only_names_of_lightning(change: FileChange) -> bool:
    """Return True if every changed line has a precision in Lightning's spelling, which no other library has."""
    before = set(change.before.splitlines())
    return all(NAME_OF_LIGHTNING.search(line) for line in change.after.splitlines() if line not in before)


def _half(program: Program, may_be_half: Callable[[str], bool]) -> Iterator[Doubt]:
    """Yield a doubt for each trainer or optimizer whose weights may still be float16 after the changes."""
    for path in (module.path for module in program.modules if module.trains):
        if may_be_half(path):
            yield Doubt("weights that it trains may be float16, and are not cast to float32", path)


def _may_train_half(
    path: str, *, changes: Mapping[str, FileChange], target: Target, read: Callable[[str], bytes]
) -> bool:
    with suppress(OSError, Unparsable):
        source = Source(path, changes[path].after if path in changes else read(path))
        return may_train_half(source, target.at(path, source.data))
    return False
