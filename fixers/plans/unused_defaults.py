"""Find changed defaults of arguments on which no training program relies.

Either every call of the function passes the argument, or the function does not read it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from fixers.frame.change import FileChange
from fixers.plans.neutral_changes import changed_defaults, passes
from fixers.plans.owners import PYTHON, Owners
from fixers.plans.uncalled import CALLED_BY_NAME, functions_in, is_only_wrapped
from fixers.sources.python import TREES
from fixers.sources.unparsable import Unparsable

READS_ALL = frozenset({"locals", "vars", "eval", "exec", "signature", "getfullargspec"})
CONSTRUCTOR = "__init__"


def find_unused_defaults(changes: Iterable[FileChange], owners: Owners) -> tuple[str, ...]:
    """Return the functions of which only such defaults change, as `path:name`."""
    found = (f"{each.path}:{name}" for each in changes if each.path.endswith(".py") for name in _unused(each, owners))
    return tuple(sorted(found))


def _unused(change: FileChange, owners: Owners) -> Iterator[str]:
    with suppress(SyntaxError, ValueError):
        old, new = list(functions_in(change.before)), list(functions_in(change.after))
        names = [node.name for _, node, _ in old]
        for (owner, node, text), (_, other, edited) in zip(old, new, strict=True) if len(old) == len(new) else ():
            if text == edited or names.count(node.name) > 1 or not is_only_wrapped(node):
                continue
            changed = changed_defaults(node, other)
            read = [name for name in changed if _reads(node, name)]
            called = owner if node.name == CONSTRUCTOR else node.name
            if changed and (not read or _are_given(read, called, node, change.path, owners)):
                yield node.name


def _reads(function: ast.FunctionDef | ast.AsyncFunctionDef, argument: str) -> bool:
    """Return True if the body may read the argument."""
    names = {each.id for part in function.body for each in ast.walk(part) if isinstance(each, ast.Name)}
    return argument in names or not names.isdisjoint(READS_ALL)


def _are_given(
    arguments: Iterable[str],
    called: str,
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    path: str,
    owners: Owners,
) -> bool:
    """Return True if the programs of the file call the function, and pass these arguments in every call.

    Code that uses the name in another way than a call may call it without the arguments.
    """
    programs = owners.of_existing(path)
    texts = _texts({each for program in programs for each in program.paths if each.endswith(PYTHON)}, called, owners)
    if any(module.dynamic for program in programs for module in program.modules):
        return False
    calls: list[ast.Call] = []
    for where, text in texts.items():
        with suppress(Unparsable):
            own = list(_calls(TREES.read(where, text).tree, called))
            if CALLED_BY_NAME.search(text) or len(own) != _uses(TREES.read(where, text).tree, called):
                return False
            calls += own
            continue
        return False
    return bool(calls) and all(passes(call, function, each) for call in calls for each in arguments)


def _texts(paths: Iterable[str], name: str, owners: Owners) -> Mapping[str, bytes]:
    """Return the files that contain the name."""
    texts: dict[str, bytes] = {}
    for path in sorted(paths):
        with suppress(OSError):
            text = owners.read(path)
            if re.search(rb"(?<!\w)%b(?!\w)" % re.escape(name.encode()), text):
                texts[path] = text
    return texts


def _calls(tree: ast.Module, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name in (getattr(node.func, "id", ""), getattr(node.func, "attr", "")):
            yield node


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
