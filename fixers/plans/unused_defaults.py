"""Find changed defaults of arguments on which no training program relies.

Either every call of the function passes the argument, or the function does not read it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress

from fixers.frame.change import FileChange
from fixers.plans.call_sites import calls_of
from fixers.plans.neutral_changes import changed_defaults, passes
from fixers.plans.owners import Owners
from fixers.plans.uncalled import functions_in, is_only_wrapped

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
    """Return True if the programs of the file call the function, and pass these arguments in every call."""
    calls = calls_of(called, path, owners)
    return bool(calls) and all(passes(call, function, each) for call in calls for each in arguments)
