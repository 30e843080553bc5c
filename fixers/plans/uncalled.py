"""Find changed functions that nothing in the project calls, and leave their code unchanged.

A method counts only if its name is private and all base classes are the project's own: a library may call other
methods. Code that a config, a command or a document may name counts as called.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from posixpath import basename, splitext
from typing import NamedTuple

from fixers.frame.change import FileChange, SkippedPlace
from fixers.frame.code_facts import reads_settings
from fixers.frame.modules import Module
from fixers.frame.site import Tree
from fixers.frame.source_fixer import Rewrite
from fixers.plans.composed_names import Composed, composed_in
from fixers.plans.neutral_changes import FUNCTIONS, WRAPS
from fixers.sources.config_files import TOOL_CONFIGS
from fixers.sources.python import TREES, PythonSource
from fixers.sources.source import Source
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass, field

NOT_CALLED = "functions that nothing in the project calls"
KINDS = frozenset({"staticmethod", "classmethod", "property"})
CALLED_BY_NAME = re.compile(rb"\bfire\.Fire\b|\bgetmembers\(|\bglobals\(\)|\b__dict__\b")
"""Matches code that may call every function of a module or class, by its name."""
UNKNOWN = ""
IMPORT = re.compile(rb"\s*(?:import|from)\s")


class _Function(NamedTuple):
    """A changed function. `owner`: the class of a method, or empty."""

    path: str
    name: str
    owner: str


def find_uncalled(changes: Iterable[FileChange], tree: Tree, modules: Sequence[Module]) -> tuple[str, ...]:
    """Return the changed functions and methods that nothing calls, as `path:name`."""
    may_be_named = any(module.dynamic for module in modules)
    changed = [each for change in changes if change.path.endswith(".py") for each in _changed(change, may_be_named)]
    names = _unused({each.name for each in changed}, {each.path: None for each in changed}, tree)
    classes = OwnClasses(tree, modules)
    found = (each for each in changed if each.name in names)
    own = (each for each in found if not each.owner or classes.are_own(each.owner, each.path))
    return tuple(sorted({f"{each.path}:{each.name}" for each in own}))


def without_functions(rewrite: Rewrite, source: Source, functions: Iterable[str], reason: str) -> Rewrite:
    """Return the rewrite without the edits in these functions, and without imports that only these edits need.

    `functions`: as `path:name`. `reason`: why the places are not changed.
    """
    names = {each.rpartition(":")[2] for each in functions if each.startswith(f"{source.path}:")}
    if not names or not rewrite.edits:
        return rewrite
    inside: set[int] = set().union(*spans_of(source.python.tree, names))
    lines = [line_of(source.data, edit.start) for edit in rewrite.edits]
    left = [edit for edit, line in zip(rewrite.edits, lines, strict=True) if line in inside]
    kept = tuple(edit for edit, line in zip(rewrite.edits, lines, strict=True) if line not in inside)
    needless = left and all(IMPORT.match(edit.replacement) and not edit.expected for edit in kept)
    places = tuple(SkippedPlace(source.where(edit.start), reason) for edit in left)
    return Rewrite(() if needless else kept, rewrite.findings, rewrite.skipped + places)


def spans_of(tree: ast.Module, names: Collection[str]) -> Iterator[range]:
    """Yield the lines of the functions with these names, and of fields with names such as `Class.field`."""
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS) and node.name in names:
            yield range(_first_line(node), (node.end_lineno or node.lineno) + 1)
        if isinstance(node, ast.ClassDef):
            fields = (each for each in node.body if isinstance(each, ast.AnnAssign))
            named = (each for each in fields if f"{node.name}.{ast.unparse(each.target)}" in names)
            yield from (range(each.lineno, (each.end_lineno or each.lineno) + 1) for each in named)


def _changed(change: FileChange, may_be_named: bool) -> Iterator[_Function]:
    """Yield the functions and methods whose text changes, and that only calls by their names can use.

    `may_be_named`: a config may name functions of modules.
    """
    if CALLED_BY_NAME.search(change.before):
        return
    with suppress(SyntaxError, ValueError):
        old, new = list(functions_in(change.before)), list(functions_in(change.after))
        pairs = zip(old, new, strict=True) if len(old) == len(new) else ()
        for (owner, node, text), (_, _, other) in pairs:
            is_free = node.name.startswith("_") or not (owner or may_be_named or node.name == "main")
            if text != other and is_free and not node.name.endswith("__") and is_only_wrapped(node):
                yield _Function(change.path, node.name, owner)


def is_only_wrapped(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return False if a decorator may register the function."""
    return all(WRAPS.search(each) or each in KINDS for each in map(ast.unparse, function.decorator_list))


def functions_in(data: bytes) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, bytes]]:
    """Yield the functions of the module and the methods of its classes, with their text."""
    lines = data.splitlines()
    for node in TREES.parse(data).body:
        owner = node.name if isinstance(node, ast.ClassDef) else ""
        for each in node.body if isinstance(node, ast.ClassDef) else (node,):
            if isinstance(each, FUNCTIONS):
                yield owner, each, b"\n".join(lines[_first_line(each) - 1 : each.end_lineno])


def _first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min((each.lineno for each in function.decorator_list), default=function.lineno)


def _unused(names: set[str], first: Iterable[str], tree: Tree) -> set[str]:
    """Return the names that no file contains, except in definitions. The files `first` are read first."""
    for path in (*first, *tree.paths()) if names else ():
        if reads_settings(path) or path.endswith(".ipynb") or basename(path).lower() in TOOL_CONFIGS:
            with suppress(OSError):
                data = tree.read(path)
                composed = composed_in(data) if path.endswith((".py", ".ipynb")) else ()
                names = {each for each in names if not _is_used(each.encode(), data, composed)}
        if not names:
            break
    return names


def _is_used(name: bytes, data: bytes, composed: Iterable[Composed]) -> bool:
    if name in data and re.search(rb"(?<!def )(?<!\w)%b(?!\w)" % re.escape(name), data):
        return True
    return any(each.may_be(name) for each in composed)


@dataclass(frozen=True)
class OwnClasses:
    """The classes in the modules of the project.

    `known`: the judged classes. `bases`: the base classes of each class of a file, by path.
    """

    tree: Tree
    modules: Sequence[Module]
    known: dict[tuple[str, str], bool] = field(default_factory=dict)
    bases: dict[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def are_own(self, name: str, path: str) -> bool:
        """Return True if the file defines the class, and all its base classes are the project's own."""
        waiting = [(path, name)]
        homes: dict[tuple[str, str], Sequence[tuple[str, str]] | None] = {}
        while waiting:
            each = waiting[-1]
            if each not in self.known:
                self.known[each] = False  # a class that is its own base is not judged again
                homes[each] = self._homes(*each)
                waiting += [one for one in homes[each] or () if one not in self.known]
                continue
            waiting.pop()
            if each in homes:
                needed = homes.pop(each)
                self.known[each] = needed is not None and all(self.known[one] for one in needed)
        return self.known[path, name]

    def _homes(self, path: str, name: str) -> Sequence[tuple[str, str]] | None:
        """Return the base classes, as path and name, or None if one of them is not a class of the project."""
        if path not in self.bases:
            self.bases[path] = self._read(path)
        homes: list[tuple[str, str]] = []
        for base in self.bases[path].get(name, (UNKNOWN,)):
            folders, _, tail = base.rpartition(".")
            parts = {each for each in folders.split(".") if each}
            near = (each.path for each in self.modules if parts <= {*splitext(each.path)[0].split("/")})
            found = [each for each in near if self._names_class(each, tail)] if "." in base else [path]
            if not found or base == UNKNOWN:
                return None
            homes += [(each, tail) for each in found]
        return homes

    def _read(self, path: str) -> Mapping[str, tuple[str, ...]]:
        """Return the base classes of each class: a dotted name, or a plain one for a class of the same file."""
        bases: dict[str, tuple[str, ...]] = {}
        with suppress(OSError, Unparsable):
            source = TREES.read(path, self.tree.read(path))
            for each in source.tree.body:
                if isinstance(each, ast.ClassDef):
                    own = tuple(name for base in each.bases if (name := _base_of(base, source)) != "object")
                    bases[each.name] = (*bases.get(each.name, ()), *own, *([UNKNOWN] if each.keywords else []))
        return bases

    def _names_class(self, path: str, name: str) -> bool:
        with suppress(OSError):
            return b"class %b" % name.encode() in self.tree.read(path)
        return False


def _base_of(base: ast.expr, source: PythonSource) -> str:
    meaning = source.names.meaning(base)
    if meaning is not None:
        return meaning if "." in meaning else f".{meaning}"
    return base.id if isinstance(base, ast.Name) else UNKNOWN
