"""Find all calls of a function in the programs to which its file belongs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from fixers.plans.owners import PYTHON, Owners
from fixers.plans.uncalled import CALLED_BY_NAME
from fixers.sources.expressions import tail_of
from fixers.sources.python import TREES
from fixers.sources.unparsable import Unparsable


def calls_of(called: str, path: str, owners: Owners, *, partial: bool = False) -> Sequence[ast.Call]:
    """Return the calls of a function or class of the file, or () if other code of the programs may call it.

    Code that uses the name in another way than a call may call it with other arguments. With `partial`,
    `partial(f, 1)` counts as the call `f(1)`.
    """
    programs = owners.of_existing(path)
    texts = _texts({each for program in programs for each in program.paths if each.endswith(PYTHON)}, called, owners)
    if any(module.dynamic for program in programs for module in program.modules):
        return ()
    calls: list[ast.Call] = []
    for where, text in texts.items():
        with suppress(Unparsable):
            own = list(_calls(TREES.read(where, text).tree, called, partial=partial))
            if CALLED_BY_NAME.search(text) or len(own) != _uses(TREES.read(where, text).tree, called):
                return ()
            calls += own
            continue
        return ()
    return calls


def _texts(paths: Iterable[str], name: str, owners: Owners) -> Mapping[str, bytes]:
    """Return the files that contain the name."""
    texts: dict[str, bytes] = {}
    for path in sorted(paths):
        with suppress(OSError):
            text = owners.read(path)
            if re.search(rb"(?<!\w)%b(?!\w)" % re.escape(name.encode()), text):
                texts[path] = text
    return texts


def _calls(tree: ast.Module, name: str, *, partial: bool) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if tail_of(node) == name:
            yield node
        elif partial and tail_of(node) == "partial" and node.args and name == _tail(node.args[0]):
            yield ast.Call(node.args[0], node.args[1:], node.keywords)


def _tail(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _uses(tree: ast.Module, name: str) -> int:
    """Return how often the code uses the name, apart from its definition and imports without another name."""
    uses = 0
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=used) | ast.Attribute(attr=used) | ast.Constant(value=used) if used == name:
                uses += 1
            case ast.alias(name=used, asname=str()) if used.rpartition(".")[2] == name:
                uses += 1
    return uses
