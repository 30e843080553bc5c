"""Keep precision changes only in training programs that are proved to work with them.

A program is a script with everything that it imports, the commands that start it, and the configs that it reads. A
program is converted completely or not at all: if one place cannot be converted, or if it is unknown which code reads a
value, the whole program keeps bfloat16. A program that the config of a run starts is converted without this proof,
because `verify` runs it on the card before the training.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from fixers.code.bf16_forms.loads import WHY_NO_DTYPE
from fixers.code.trainable_fp32 import may_train_half
from fixers.frame.change import FileChange, Plan, SkippedPlace
from fixers.frame.findings import warning
from fixers.frame.modules import Module, read_module
from fixers.frame.site import Tree
from fixers.frame.target import Target
from fixers.plans.doubts import Doubt, warnings_of
from fixers.plans.neutral_changes import is_neutral, is_unneeded
from fixers.plans.owners import PYTHON, Owners, commands_naming
from fixers.plans.programs import Program, find_programs, scripts_in, starts
from fixers.plans.shared_casts import using_changed_casts
from fixers.settings.known_formats import is_known_format
from fixers.sources.commands import reads_commands
from fixers.sources.launched import scripts_of
from fixers.sources.source import Source
from fixers.sources.unparsable import Unparsable
from remote.protocol.findings import Finding, Severity

HARMLESS = (WHY_NO_DTYPE,)
"""Warnings that do not stop a conversion: autocast computes in float16, regardless of the dtype of frozen weights."""
UNREAD = "could not be read"
NOT_TRAINING = "files that no training of the project runs"
UNSTARTED = "programs that stay in bfloat16, and that no command or document of the project starts"
OF_CONFIG = "commands with a config that stays in bfloat16"
ABSENT = "commands that start no training of the project"
FLASH_STAYS = "FlashAttention stays: {where} might fail without it"
FLASH_GOES = "{where} might fail without FlashAttention, which does not run on this card"


@dataclass(frozen=True)
class Proof:
    """The files whose changes are withheld, the warnings about programs, and the places that stay unchanged.

    `attending`: files whose attention stays unchanged, because code of their program may need FlashAttention.
    """

    withheld: frozenset[str] = frozenset()
    attending: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = ()
    skipped: tuple[SkippedPlace, ...] = ()


def prove(plan: Plan, modules: Sequence[Module], target: Target, tree: Tree, *, for_run: bool) -> Proof:
    """Return the changes that must be withheld from the plan of the precision fixers.

    With `for_run`, nothing is withheld if the run starts halfstep's built-in trainer and no script of the project.
    """
    changes = {each.path: each for each in plan.changes if isinstance(each, FileChange)}
    edited = tuple(_changed_module(module, changes) for module in modules)
    attribution = Owners(tree, find_programs(edited, target.started), edited)
    owners = {path: attribution.of_change(each) for path, each in changes.items()}
    run = {each.entry for each in attribution.programs if _is_started(each, target.started, tree.read)}
    if for_run and not run:
        return Proof()
    attached = _not_started(owners, run)
    warnings = _blocking(plan, attribution, changes)
    doubts: dict[str, Doubt] = {}
    attending: dict[str, Doubt] = {}
    for program in dict.fromkeys(chain.from_iterable(attached.values())):
        mine = [changes[path] for path, own in attached.items() if program in own]
        of_weights = _half(program, changes, target, tree.read)
        doubt = next(chain(_of_code(program), warnings.of(program), _unread(program, mine), of_weights), None)
        if doubt is not None:
            doubts[program.entry] = doubt
        attending |= _of_attention(program, mine)
    shared = {path: own for path, own in attached.items() if path not in warnings.unsuited}
    sharing = _Sharing(shared, changes, attribution.read)
    doubts = sharing.with_shared_files(doubts)
    unstarted = _unstarted(doubts, target)
    held_back = sharing.held_back(doubts) | warnings.unsuited
    outside = _outside(owners, changes, held_back, edited)
    return _proof(outside, held_back, doubts, attending, warnings.unsuited, unstarted)


@dataclass(frozen=True)
class _Sharing:
    """The files that several programs share.

    If the change affects a program that is not proved, the file stays unchanged for all of its programs.
    """

    attached: Mapping[str, tuple[Program, ...]]
    changes: Mapping[str, FileChange]
    read: Callable[[str], bytes]
    known: dict[tuple[str, str], bool] = field(default_factory=dict)

    def is_neutral(self, path: str, program: Program) -> bool:
        key = path, program.entry
        if key not in self.known:
            self.known[key] = is_neutral(self.changes[path], program, self.read)
        return self.known[key]

    def is_unneeded(self, path: str, program: Program) -> bool:
        return is_unneeded(self.changes[path], program, self.read)

    def with_shared_files(self, doubts: Mapping[str, Doubt]) -> dict[str, Doubt]:
        """Add a doubt for each program that needs a withheld change.

        Another program is the reason for withholding it.
        """
        spread = dict(doubts)
        while True:
            new: dict[str, Doubt] = {}
            for path, own in self.attached.items():
                doubted = self.holding_back(path, own, spread) if len(own) > 1 else None
                if doubted is not None:
                    reason = f"it shares {path} with {doubted}, which is not proved to work in float16"
                    needing = (each for each in own if each.entry not in spread and not self.is_unneeded(path, each))
                    new |= {each.entry: Doubt(reason, path, doubted) for each in needing}
            if not new:
                return spread
            spread |= new

    def holding_back(self, path: str, own: Iterable[Program], doubts: Collection[str]) -> str | None:
        """Return the entry of a program that is not proved and that the file's change would affect, or None."""
        doubted = (each for each in own if each.entry in doubts)
        return next((each.entry for each in doubted if not self.is_neutral(path, each)), None)

    def held_back(self, doubts: Collection[str]) -> frozenset[str]:
        """Return the files that stay unchanged.

        A file stays if all its programs are unproved, or if its change affects an unproved program.
        """
        return frozenset(
            path
            for path, own in self.attached.items()
            if _entries(own) <= set(doubts) or self.holding_back(path, own, doubts) is not None
        )


def _not_started(owners: Mapping[str, tuple[Program, ...] | None], run: set[str]) -> dict[str, tuple[Program, ...]]:
    return {path: own for path, own in owners.items() if own and not run & _entries(own)}


def _outside(
    owners: Mapping[str, tuple[Program, ...] | None],
    changes: Mapping[str, FileChange],
    held_back: frozenset[str],
    modules: Sequence[Module],
) -> frozenset[str]:
    """Return the changed files that no training runs and that share no changed casts with a training."""
    outside = frozenset(path for path, own in owners.items() if own is None)
    kept = (each for path, each in changes.items() if path not in outside | held_back)
    return outside - using_changed_casts([changes[path] for path in outside], kept, modules)


def _entries(programs: Iterable[Program]) -> set[str]:
    return {program.entry for program in programs}


@dataclass(frozen=True)
class _Warnings:
    """The warnings that count as doubts, each with the programs that own the file of the warning.

    `unsuited`: configs of a known format with a warning that counts. They keep bfloat16 and add no doubt.
    """

    users: tuple[tuple[Finding, tuple[Program, ...]], ...]
    unsuited: frozenset[str]

    def of(self, program: Program) -> Iterator[Doubt]:
        return (Doubt(each.message, each.where) for each, users in self.users if program in users)


def _blocking(plan: Plan, attribution: Owners, changes: Mapping[str, FileChange]) -> _Warnings:
    blocking = [each for each in plan.findings if _blocks(each)]
    read = attribution.read
    unsuited = frozenset(_path_of(each) for each in blocking if _has_known_format(_path_of(each), read))
    others = ((each, _path_of(each)) for each in blocking if _path_of(each) not in unsuited)
    users = tuple((each, attribution.of_existing(path)) for each, path in others)
    return _Warnings(users, unsuited | commands_naming(unsuited, changes.values()))


def _proof(
    outside: frozenset[str],
    held_back: frozenset[str],
    doubts: Mapping[str, Doubt],
    attending: Mapping[str, Doubt],
    unsuited: frozenset[str],
    unstarted: frozenset[str],
) -> Proof:
    withheld = outside | held_back
    kept = {path: each for path, each in sorted(attending.items()) if path not in withheld}
    findings = warnings_of({entry: each for entry, each in doubts.items() if entry not in unstarted})
    findings += [warning("attention-to-sdpa", each.reason, path) for path, each in kept.items()]
    skipped = [SkippedPlace(path, ABSENT if reads_commands(path) else NOT_TRAINING) for path in sorted(outside)]
    skipped += [SkippedPlace(path, OF_CONFIG) for path in sorted(unsuited) if reads_commands(path)]
    skipped += [SkippedPlace(path, UNSTARTED) for path in sorted(unstarted)]
    return Proof(withheld, frozenset(kept), tuple(findings), tuple(skipped))


def _unstarted(doubts: Collection[str], target: Target) -> frozenset[str]:
    """Return the programs that no command or document starts, if commands or documents start other programs."""
    launched = target.code_facts.traits.launched
    starting = {path for each in launched for path in scripts_of(each, tuple(doubts))} | {*target.started}
    return frozenset(doubts) - starting if launched else frozenset()


def _is_started(program: Program, started: Sequence[str], read: Callable[[str], bytes]) -> bool:
    """Return True if the config's command starts the program: then `verify` proves the changes by running it."""
    if program.entry in started:
        return True
    scripts = ((script, path) for path in started if not path.endswith(PYTHON) for script in scripts_in(read(path)))
    return any(starts(program, script, path) for script, path in scripts)


def _changed_module(module: Module, changes: Mapping[str, FileChange]) -> Module:
    return read_module(module.path, changes[module.path].after) if module.path in changes else module


def _path_of(finding: Finding) -> str:
    return finding.where.partition(":")[0]


def _has_known_format(path: str, read: Callable[[str], bytes]) -> bool:
    with suppress(OSError):
        return is_known_format(path, read(path))
    return False


def _blocks(finding: Finding) -> bool:
    """Return True if the finding is a doubt about float16 in the program.

    Findings about trained weights are ignored, because `_half` judges these weights. Findings about FlashAttention are
    ignored, because FlashAttention does not run on this card in any case.
    """
    if finding.severity is Severity.INFO or finding.check in {"trainable-fp32", "attention-to-sdpa"}:
        return False
    return finding.message not in HARMLESS and UNREAD not in finding.message


def _of_attention(program: Program, own: Iterable[FileChange]) -> dict[str, Doubt]:
    """Return the doubts about changes that turn FlashAttention off, by path, if the program may need FlashAttention.

    Only Python code keeps FlashAttention: commands and configs that select it would fail on this card in any case.
    """
    where = next((f"{module.path}:{module.attends}" for module in program.modules if module.attends), "")
    turning_off = [each.path for each in own if where and any("FlashAttention" in line for line in each.why)]
    texts = {path: FLASH_STAYS if path.endswith(PYTHON) else FLASH_GOES for path in turning_off}
    return {path: Doubt(text.format(where=where), where) for path, text in texts.items()}


def _of_code(program: Program) -> Iterator[Doubt]:
    """Yield the doubts about float16 that the program's code raises."""
    for module in program.modules:
        if module.refuses:
            where = f"{module.path}:{module.refuses}"
            yield Doubt(f"{where} raises an error for float16", where)
    if not any(module.scales for module in program.modules):
        yield Doubt("nothing in it scales the loss", program.entry)


def _unread(program: Program, own: Iterable[FileChange]) -> Iterator[Doubt]:
    """Yield a doubt for each config or command with a float16 value that no known code of the program reads."""
    if any(module.parses or module.half for module in program.modules):
        return
    for change in own:
        if not change.path.endswith(PYTHON) and not is_known_format(change.path, change.before):
            yield Doubt(f"no code in it is known to read float16 from {change.path}", change.path)


def _half(
    program: Program, changes: Mapping[str, FileChange], target: Target, read: Callable[[str], bytes]
) -> Iterator[Doubt]:
    """Yield a doubt for each trainer or optimizer whose weights may still be float16 after the changes."""
    for path in (module.path for module in program.modules if module.trains):
        with suppress(OSError, Unparsable):
            source = Source(path, changes[path].after if path in changes else read(path))
            if may_train_half(source, target.at(path)):
                yield Doubt("weights that it trains may be float16, and are not cast to float32", path)
