"""Find the code of a program that loads a model whose activations overflow in float16.

Loss scaling does not help: the forward pass itself exceeds 65504. In bfloat16 and float32, the models work.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

from fixers.frame.change import FileChange, SkippedPlace
from fixers.plans.code_units import Unit
from fixers.plans.doubts import Doubt
from fixers.plans.programs import Program
from fixers.plans.reached import Reach, changed_units
from fixers.plans.text_facts import TextFacts
from fixers.sources.expressions import tail_of
from fixers.sources.lines import holds_any
from fixers.sources.syntax import parse_python
from remote.protocol.dataclass import dataclass, field

OVERFLOWS = "{where} loads a model of the family {family}, whose activations overflow in float16"
LEFT = "code that loads models whose activations overflow in float16"
LOADER = (
    rb"(?<!Tokenizer)(?<!TokenizerFast)(?<!Processor)(?<!Config)\.from_pretrained\(\s*(?:\w+\s*=\s*)?[\"'](?:[\w.-]+/)?"
)
USED = rb"(?<!class )\b(?:%b)(?:For[A-Z]\w*|\w*Model)(?:\.(?:from_pretrained|_?from_config))?\("
REGISTERED = re.compile(rb"^[ \t]*@([\w.]*register\w*)", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class Family:
    """Models of one architecture: patterns of their classes in transformers, and of the names of their checkpoints."""

    name: str
    words: tuple[bytes, ...]
    classes: bytes
    checkpoints: bytes

    def find(self, text: bytes) -> re.Match[bytes] | None:
        return _pattern(self).search(text) if holds_any(text, self.words) else None


FAMILIES = (
    Family(
        "T5 (T5, Flan-T5, mT5, UMT5, UL2)",
        (b"T5", b"t5", b"ul2"),
        rb"(?:M|UM)?T5",
        rb"(?:flan-)?(?:u?mt5|t5|ul2)(?=[-_\"'])",
    ),
    Family("T5 (UDOP, Pop2Piano)", (b"Udop", b"Pop2Piano"), rb"Udop|Pop2Piano", rb"(?:udop|pop2piano)(?=[-_\"'])"),
    Family("Gemma 3", (b"Gemma3", b"gemma-3"), rb"Gemma3n?", rb"gemma-3n?(?=[-_\"'])"),
)
"""T5: the output of the feed-forward layer `wo` exceeds 65504 (transformers issues 5651 and 23918, pull request 10956).
With float16 weights, transformers loads `wo` in float32 (`_keep_in_fp32_modules = ["wo"]` in modeling_t5.py, and in
those of mT5, UMT5, UDOP and Pop2Piano). Autocast uses float16 for it, and copies of modeling_t5.py may lack the list.
Gemma 3 and 3n: activations reach 800,000 (unsloth pull request 4014)."""


WORDS = tuple(word for each in FAMILIES for word in each.words)
NAMED = re.compile(rb"[\"'](?:[\w.-]+/)?(?:" + b"|".join(each.checkpoints for each in FAMILIES) + b")")


@lru_cache
def _pattern(family: Family) -> re.Pattern[bytes]:
    return re.compile(USED % family.classes + b"|" + LOADER + b"(?:" + family.checkpoints + b")")


@dataclass(frozen=True)
class Load:
    """A place that loads such a model. `kind`: the decorator that registers its class as one of several models."""

    path: str
    where: str
    family: str
    kind: bytes = b""


@dataclass
class Overflows:
    """The loads of such models that programs reach. `found`: the loads of each program that was searched."""

    reach: Reach
    facts: TextFacts
    found: dict[str, tuple[Load, ...]] = field(default_factory=dict)

    def of(self, program: Program, own: Sequence[FileChange]) -> Iterator[Doubt]:
        """Yield a doubt for each load.

        A load in a registered class is no doubt if the program's other changes concern only classes that the same
        decorator registers: these classes are alternatives.
        """
        loads = self._loads(program)
        loading = {each.path for each in loads}
        others = [each for each in own if each.path not in loading]
        for load in loads:
            if not load.kind or not all(self._is_alternative(each, program, load.kind) for each in others):
                yield Doubt(OVERFLOWS.format(where=load.where, family=load.family), load.where)

    def loading(self, paths: Iterable[str]) -> frozenset[str]:
        """Return those of the paths with a registered class that loads such a model."""
        return frozenset(paths) & {load.path for loads in self.found.values() for load in loads if load.kind}

    def left(self, owners: Mapping[str, Sequence[Program]], doubts: Collection[str]) -> tuple[SkippedPlace, ...]:
        """Return the files with such classes that are left alone in programs without doubts."""
        paths = (each for each in self.loading(owners) if any(own.entry not in doubts for own in owners[each]))
        return tuple(SkippedPlace(path, LEFT) for path in sorted(paths))

    def _loads(self, program: Program) -> tuple[Load, ...]:
        if program.entry not in self.found:
            self.found[program.entry] = tuple(self._find(program))
        return self.found[program.entry]

    def _find(self, program: Program) -> Iterator[Load]:
        paths = sorted(program.paths)
        naming = (path for path in paths if path.endswith(".py") and self.facts.of(path, _names_checkpoint))
        defaults: dict[str, str] = {}
        for path in naming:
            defaults |= self.facts.of(path, _defaults)
        for path in paths:
            if not self.facts.of(path, _mentions) and not (bool(defaults) and self.facts.of(path, _loads_models)):
                continue
            reached, kinds = self.reach.of(program), self._kinds(path, program)
            for unit in self.reach.parse(path, is_entry=path == program.entry) or ():
                if reached is None or unit.key in reached:
                    for line, family in _loads_in(unit, defaults):
                        yield Load(path, f"{path}:{line}", family.name, kinds.get(unit.owner, b""))

    def _is_alternative(self, change: FileChange, program: Program, kind: bytes) -> bool:
        changed = changed_units(change, is_entry=change.path == program.entry) if change.path.endswith(".py") else None
        kinds = self._kinds(change.path, program)
        return changed is not None and all(kinds.get(owner or name) == kind for _, owner, name in changed)

    def _kinds(self, path: str, program: Program) -> Mapping[str, bytes]:
        """Return the decorators that register the classes of the module."""
        classes = (each for each in self.reach.units(path, is_entry=path == program.entry) if each.is_class)
        return {each.name: kind for each in classes if (kind := _registered(each))}


def _mentions(text: bytes) -> bool:
    return any(family.find(text) for family in FAMILIES)


def _loads_models(text: bytes) -> bool:
    return b"from_pretrained" in text


def _names_checkpoint(text: bytes) -> bool:
    return holds_any(text, WORDS) and NAMED.search(text) is not None


def _defaults(text: bytes) -> dict[str, str]:
    """Return the options of argparse, and the fields of classes, whose default is the name of such a checkpoint."""
    with suppress(SyntaxError, ValueError):
        found = map(_default_of, ast.walk(parse_python(text)))
        constants = ((name, value.value) for name, value in found if isinstance(value, ast.Constant))
        return {name: str(value) for name, value in constants if _loads_checkpoint(repr(value))}
    return {}


def _default_of(node: ast.AST) -> tuple[str, ast.expr | None]:
    """Return the name and the default of an option or of a field."""
    match node:
        case ast.Call(args=[ast.Constant(value=str() as option), *_], keywords=given) if (
            tail_of(node) == "add_argument"
        ):
            return option.lstrip("-").replace("-", "_"), next((e.value for e in given if e.arg == "default"), None)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(keywords=given)):
            return name, next((each.value for each in given if each.arg == "default"), None)
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            return name, value
    return "", None


def _loads_checkpoint(name: str) -> bool:
    return any(each.find(f"AutoModel.from_pretrained({name}".encode()) for each in FAMILIES)


def _loads_in(unit: Unit, defaults: Mapping[str, str]) -> Iterator[tuple[int, Family]]:
    """Yield the lines of the loads, by the class, the name, or an option with the name as its default."""
    for call in (each for node in unit.nodes for each in ast.walk(node) if isinstance(each, ast.Call)):
        first = next(iter((*call.args, *(each.value for each in call.keywords))), None)
        named = repr(first.value) if isinstance(first, ast.Constant) else ""
        if isinstance(first, ast.Attribute) and first.attr in defaults:
            named = repr(defaults[first.attr])
        text = f"{ast.unparse(call.func)}({named}".encode() if _is_name(call.func) else b""
        yield from ((call.lineno, each) for each in FAMILIES if each.find(text))


def _is_name(function: ast.expr) -> bool:
    """Return True for a dotted name."""
    while isinstance(function, ast.Attribute):
        function = function.value
    return isinstance(function, ast.Name)


def _registered(unit: Unit) -> bytes:
    found = REGISTERED.search(unit.text) if unit.at_import else None
    return found[1] if found else b""
