"""Find functions that only inference scripts call, in modules that these scripts share with a training program.

The functions stay unchanged if nothing else of the scripts' modules changes, except the dtype in which a model is
loaded that each script casts to bfloat16. Otherwise, bfloat16 and float16 would mix in the script.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from fixers.frame.change import FileChange
from fixers.frame.modules import Module
from fixers.plans.model_casts import functions_casting_models, only_in
from fixers.plans.neutral_changes import FUNCTIONS
from fixers.plans.owners import PYTHON, Owners
from fixers.plans.programs import closures
from fixers.plans.uncalled import (
    CALLED_BY_NAME,
    OwnClasses,
    functions_in,
    is_only_wrapped,
)
from fixers.plans.used_names import UsedNames, source_of, uses
from fixers.settings.known_formats import is_known_format
from fixers.sources.commands import reads_commands
from fixers.sources.launched import is_document
from fixers.sources.python import PythonSource
from remote.protocol.dataclass import dataclass

FIXERS = ("bf16-to-fp16", "attention-to-sdpa")
"""The fixers whose edits are left in these functions."""
ONLY_INFERENCE = "functions that are called only by inference scripts"
OF_INFERENCE = re.compile(
    r"_?(?:generate|infer|inference|transcribe|synthesi[sz]e|chat|sample|decode)(?:\d\w*|_\w+)?(?<!_step)"
)
OF_CLASS = ("classmethod", "staticmethod")
HOOK = re.compile(
    r"(?:forward|train|eval|to|apply|float|half|call|get|set|on|log|state|load|save|prepare|gradient|enable|disable|tie"
    r"|resize|configure|compute|create|reset|init|extra|register|setup|collate)(?:_\w*)?|\w+_(?:step|hook|dataloader)"
)
"""Matches methods of modules that torch and libraries of training call."""
MODULE = re.compile(r"(?:torch\.)?nn\.(?:modules\.module\.)?Module")
BY_TRAINER = re.compile(
    rb"predict_with_generate|\bSeq2Seq\w*Train|\b(?:GRPO|RLOO|PPO|OnlineDPO|XPO|NashMD|GKD)\w*(?:Trainer|Config)\b"
)
"""Matches trainers that call `generate` of the model."""
PROSE = re.compile(rb"(?:^|[ \t])#.*|^[ \t]*(?:echo|printf)\b.*", re.MULTILINE)
IN_DOCUMENT = rb"(?<!\w)%b[ ]*\(|[.`]%b(?!\w)"


def find_inference_code(
    changes: Sequence[FileChange], owners: Owners, scripts: Sequence[Module] = ()
) -> tuple[str, ...]:
    """Return the functions and methods that only inference scripts call, as `path:name`.

    `scripts`: scripts that never train, which `owners` does not contain.
    """
    search = _Search({each.path: each for each in changes}, owners, (*owners.modules, *scripts))
    found = {each.path: search.only_inference(each) for each in search.shared()}
    while failing := {path for path, names in found.items() if not search.may_stay(path, names, found)}:
        found = {path: names for path, names in found.items() if path not in failing}
    return tuple(sorted(f"{path}:{name}" for path, names in found.items() for name in names))


@dataclass(frozen=True)
class _Function:
    """A function, or a method of the class `owner`. `uses`: the names in its code."""

    name: str
    owner: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    uses: frozenset[str]

    @property
    def of_class(self) -> bool:
        """Whether it is called by the name of its class, such as `Speech.load`."""
        return bool(self.owner) and any(ast.unparse(each) in OF_CLASS for each in self.node.decorator_list)


@dataclass(frozen=True)
class _Search:
    """The changes of a project, the programs to which they may belong, and the modules of programs and scripts."""

    changes: Mapping[str, FileChange]
    owners: Owners
    modules: Sequence[Module]

    @cached_property
    def _names(self) -> UsedNames:
        return UsedNames(self.owners.read)

    @cached_property
    def trained(self) -> frozenset[str]:
        """The modules of all training programs."""
        return frozenset(path for program in self.owners.programs for path in program.paths)

    @cached_property
    def casting(self) -> Mapping[str, frozenset[str]]:
        """The functions of other modules that cast a model to bfloat16. The main code of a module has an empty name."""
        outside = (each.path for each in self.modules if each.path not in self.trained)
        texts = ((path, self.owners.read(path)) for path in outside if path.endswith(".py"))
        sources = (source_of(path, data) for path, data in texts if b"bfloat16" in data)
        found = {each.path: functions_casting_models(each) for each in sources if each is not None}
        return {path: names for path, names in found.items() if names}

    @cached_property
    def imports(self) -> Mapping[str, frozenset[str]]:
        """The modules that no training program contains, with all modules that they import."""
        return closures([each.path for each in self.modules if each.path not in self.trained], self.modules)

    def shared(self) -> list[FileChange]:
        """Return the changed modules of training programs, or none if a trainer of the project may call `generate`."""
        found = [each for each in self.changes.values() if each.path.endswith(".py") and each.path in self.trained]
        return [] if not found or any(BY_TRAINER.search(text) for _, text in self.owners.texts) else found

    def only_inference(self, change: FileChange) -> frozenset[str]:
        """Return the names of the functions of the module that no training program uses, if the change edits one."""
        source = None if CALLED_BY_NAME.search(change.before) else source_of(change.path, change.before)
        importing = [path for path, modules in self.imports.items() if change.path in modules]
        edited = _edited(change) if source is not None and importing else frozenset()
        if source is None or not edited or edited <= self._used_in_training(change.path, edited):
            return frozenset()
        functions = list(_functions(source))
        fixed = {each.name for each in functions if each.name.endswith("__") or not is_only_wrapped(each.node)}
        names = frozenset(each.name for each in functions if each.name not in fixed)
        names -= self._used_in_training(change.path, names)
        names -= self._named_in_texts(functions, names)
        names = self._closed(source, functions, names, self._used_in(importing, names))
        return names if names & edited else frozenset()

    def _closed(
        self, source: PythonSource, functions: Sequence[_Function], names: frozenset[str], called: frozenset[str]
    ) -> frozenset[str]:
        """Return those of the names that the other code of the module does not use.

        `called`: the names that inference scripts use.
        """
        own = OwnClasses(self.owners.tree, self.owners.modules)
        inner = {each.node for each in functions}
        rest = {name for node in _outside_functions(source.tree, inner) for name in uses(node, source)}
        while names:
            others = rest.union(*(each.uses for each in functions if each.name not in names))
            by_set = frozenset().union(*(each.uses for each in functions if each.name in names))
            named = (each for each in functions if each.name in names)
            unfit = {each.name for each in named if not _fits(each, source, own, by_set, called)}
            if not (dropped := names & (others | unfit)):
                break
            names -= dropped
        return names

    def _used_in_training(self, path: str, names: Collection[str]) -> frozenset[str]:
        """Return the names that training programs with the module use in other modules.

        A program that imports modules by computed names may contain every module.
        """
        near = (each for each in self.owners.programs if path in each.paths or any(m.dynamic for m in each.modules))
        return self._used_in({part for program in near for part in program.paths} - {path}, names)

    def _used_in(self, paths: Iterable[str], names: Collection[str]) -> frozenset[str]:
        return self._names.used_in(paths, names)

    def _named_in_texts(self, functions: Iterable[_Function], names: Collection[str]) -> frozenset[str]:
        """Return the names that configs, commands or documents contain."""
        texts = [each for each in self.owners.texts if not each[0].endswith(PYTHON)]
        forms = {each.name: f"{each.owner}." * each.of_class + each.name for each in functions if each.name in names}
        return frozenset(name for name, form in forms.items() if any(_is_named(form.encode(), *e) for e in texts))

    def may_stay(self, path: str, names: Collection[str], left: Mapping[str, Collection[str]]) -> bool:
        """Return True if inference scripts use the functions, and no change of another function affects these scripts.

        `left`: the functions of each module that keep bfloat16.
        """
        users = [each for each, modules in self.imports.items() if path in modules and self._uses_any(each, names)]
        return bool(names and users) and not self._reads_changed_config(path) and self._are_unaffected(users, left)

    def _are_unaffected(self, users: Sequence[str], left: Mapping[str, Collection[str]]) -> bool:
        """Return True if all changes of the scripts' modules are in the functions that are left.

        Edits of arguments of loaded models do not affect scripts that cast these models to bfloat16. A module that
        imports other modules by computed names may run any change.
        """
        parts = frozenset().union(*(self.imports[each] for each in users))
        if any(each.dynamic for each in self.modules if each.path in parts):
            return False
        changed = (self.changes[each] for each in parts & self.trained if each in self.changes)
        casts = all(self._casts(each) for each in users)
        return all(only_in(left.get(each.path, ()), each, and_loads=casts) for each in changed)

    def _own(self, user: str) -> frozenset[str]:
        """Return the modules of an inference script that no training program contains."""
        return self.imports[user] - self.trained

    def _uses_any(self, user: str, names: Collection[str]) -> bool:
        return bool(self._used_in(self._own(user), names))

    def _casts(self, user: str) -> bool:
        """Return True if the modules of the inference script cast the model to bfloat16 when they run."""
        casting = frozenset().union(*(self.casting.get(each, frozenset()) for each in self._own(user)))
        return "" in casting or bool(self._used_in(self._own(user), casting))

    def _reads_changed_config(self, path: str) -> bool:
        """Return True if a program with the module reads a changed config that an inference script may read too."""
        configs = (each for each in self.changes.values() if not each.path.endswith(PYTHON))
        unknown = (e for e in configs if not (reads_commands(e.path) or is_known_format(e.path, e.before)))
        programs = (program for each in unknown for program in self.owners.of(each.path, each.before) or ())
        return any(path in program.paths for program in programs)


def _fits(
    function: _Function, source: PythonSource, own: OwnClasses, by_set: Collection[str], called: Collection[str]
) -> bool:
    """Return True if no library calls the function during training.

    `by_set`: the names that functions of inference use. `called`: the names that inference scripts use.
    """
    if OF_INFERENCE.fullmatch(function.name):
        return True
    is_module = _is_torch_module(function.owner, source)
    if not function.owner or (is_module and function.of_class) or own.are_own(function.owner, source.path):
        return function.name in by_set or function.name in called
    may_be_hook = HOOK.fullmatch(function.name.lstrip("_")) is not None
    return is_module and not may_be_hook and function.name in by_set and function.name not in called


def _is_torch_module(name: str, source: PythonSource) -> bool:
    found = [each for each in source.tree.body if isinstance(each, ast.ClassDef) and each.name == name]
    bases = [source.names.meaning(base) or "" for each in found for base in each.bases]
    return bool(bases) and all(MODULE.fullmatch(each) for each in bases)


def _edited(change: FileChange) -> frozenset[str]:
    """Return the names of the functions and methods whose text changes."""
    with suppress(SyntaxError, ValueError):
        pairs = zip(functions_in(change.before), functions_in(change.after), strict=True)
        return frozenset(node.name for (_, node, old), (_, _, new) in pairs if old != new)
    return frozenset()


def _functions(source: PythonSource) -> Iterator[_Function]:
    """Yield the functions of the module and the methods of its classes."""
    for node in source.tree.body:
        owner = node.name if isinstance(node, ast.ClassDef) else ""
        for each in node.body if isinstance(node, ast.ClassDef) else (node,):
            if isinstance(each, FUNCTIONS):
                yield _Function(each.name, owner, each, frozenset(uses(each, source)))


def _outside_functions(tree: ast.Module, functions: Collection[ast.AST]) -> Iterator[ast.AST]:
    """Yield the statements of the module and its classes, without these functions."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from (each for each in (*node.body, *node.bases, *node.decorator_list) if each not in functions)
        elif node not in functions:
            yield node


def _is_named(name: bytes, path: str, text: bytes) -> bool:
    """Return True if a config, commands or a document contain the name. In prose, only code counts."""
    if name not in text:
        return False
    if is_document(path):
        return re.search(IN_DOCUMENT % (re.escape(name), re.escape(name)), text) is not None
    return re.search(rb"(?<!\w)%b(?!\w)" % re.escape(name), PROSE.sub(b"", text)) is not None
