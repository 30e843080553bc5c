"""Find changed defaults of options that every command and document which starts the training passes."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from posixpath import basename

from fixers.frame.change import FileChange
from fixers.plans.owners import PYTHON, Owners
from fixers.plans.programs import Program
from fixers.sources.launched import Launched, scripts_of
from fixers.sources.option_defaults import defaults_in
from fixers.sources.python import TREES
from fixers.sources.unparsable import Unparsable

DTYPE = re.compile(r"\w*(?:dtype|precision)\w*")
"""Matches options whose values name a dtype. Fixers rename switches such as `--bf16` in commands; their defaults must
change too."""


def find_passed_options(changes: Iterable[FileChange], owners: Owners, launched: Sequence[Launched]) -> tuple[str, ...]:
    """Return the options of Python files whose default changes, and that every start passes, as `path:--name`."""
    found: set[str] = set()
    starting = _with_scripts(launched, owners)
    for change in changes:
        names = set(_changed_defaults(change)) if change.path.endswith(".py") else set()
        programs = owners.of_existing(change.path) if names else ()
        if programs:
            passed = frozenset.intersection(*(_passed(each, starting) for each in programs))
            texts = [text for each in programs for text in _naming(each, owners)]
            named = [each for each in names & passed if all(_spells(each).search(text) for text in texts)]
            single = (name for name in named if all(_is_defined_once(name, each, owners) for each in programs))
            found |= {f"{change.path}:--{each}" for each in single}
    return tuple(sorted(found))


def _with_scripts(launched: Iterable[Launched], owners: Owners) -> list[tuple[Launched, tuple[str, ...]]]:
    """Return the commands, each with the scripts of programs that it starts."""
    entries = tuple(each.entry for each in owners.programs)
    return [(each, scripts_of(each, entries)) for each in launched]


def _passed(program: Program, launched: Sequence[tuple[Launched, Collection[str]]]) -> frozenset[str]:
    """Return the options that all commands and documents which start the program pass. A config may pass none.

    `launched`: the commands, each with the scripts that it starts.
    """
    options = [frozenset(each.options) for each, scripts in launched if program.entry in scripts]
    return frozenset.intersection(*options) if options and not program.started else frozenset()


def _naming(program: Program, owners: Owners) -> Iterator[bytes]:
    """Yield the code outside of the program that names its script, because this code may start it."""
    script = basename(program.entry).encode()
    for path, text in owners.texts:
        if path.endswith(PYTHON) and path not in program.paths and script in text:
            yield text


def _spells(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"\b" + name.replace("_", "[-_]").encode() + rb"\b")


def _changed_defaults(change: FileChange) -> Iterator[str]:
    """Yield the names of the options whose default changes."""
    with suppress(SyntaxError, ValueError):
        old, new = (_defaults(TREES.parse(each)) for each in (change.before, change.after))
        for (name, one), (other, two) in zip(old, new, strict=False):
            if name == other and DTYPE.fullmatch(name) and ast.dump(one) != ast.dump(two):
                yield name


def _defaults(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    """Return the options and fields of the module with their defaults, in the order of the file."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Call | ast.ClassDef))
    return [pair for node in nodes for pair in defaults_in(node)]


def _is_defined_once(name: str, program: Program, owners: Owners) -> bool:
    """Return True if the program has no other option or field of this name, which the commands may not set."""
    count = 0
    for path in program.paths:
        with suppress(OSError, Unparsable):
            text = owners.read(path)
            if name.encode() in text or name.replace("_", "-").encode() in text:
                nodes = ast.walk(TREES.read(path, text).tree)
                count += sum(name == other for node in nodes for other, _ in defaults_in(node))
    return count == 1
