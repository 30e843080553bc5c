"""Find changed defaults of arguments, and of fields of dataclasses, on which no training program relies.

Either every call of the function or dataclass passes the argument, or the function does not read it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from fixers.frame.change import FileChange
from fixers.plans.call_sites import calls_of
from fixers.plans.neutral_changes import changed_defaults, passes
from fixers.plans.owners import Owners
from fixers.plans.uncalled import functions_in, is_only_wrapped
from fixers.sources.option_defaults import defaults_in
from fixers.sources.python import TREES

READS_ALL = frozenset({"locals", "vars", "eval", "exec", "signature", "getfullargspec"})
CONSTRUCTOR = "__init__"
DATACLASS = re.compile(r"(?:dataclasses\.)?dataclass\b")


def find_unused_defaults(changes: Iterable[FileChange], owners: Owners) -> tuple[str, ...]:
    """Return the functions of which only such defaults change, as `path:name`, and fields as `path:Class.field`."""
    changed = [each for each in changes if each.path.endswith(".py")]
    found = {f"{each.path}:{name}" for each in changed for name in _unused(each, owners)}
    return tuple(sorted(found | {f"{each.path}:{name}" for each in changed for name in _unused_fields(each, owners)}))


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


def _unused_fields(change: FileChange, owners: Owners) -> Iterator[str]:
    """Yield the changed fields of dataclasses that all calls of the class pass."""
    with suppress(SyntaxError, ValueError):
        after = {each.name: _defaults_of(each) for each in _dataclasses(change.after)}
        for owner in _dataclasses(change.before):
            new = after.get(owner.name, {})
            changed = [name for name, value in _defaults_of(owner).items() if value != new.get(name, value)]
            calls = calls_of(owner.name, change.path, owners) if changed else ()
            for name in changed:
                if calls and all(_passes_field(call, owner, name) for call in calls):
                    yield f"{owner.name}.{name}"


def _dataclasses(data: bytes) -> Iterator[ast.ClassDef]:
    for node in TREES.parse(data).body:
        if isinstance(node, ast.ClassDef) and any(DATACLASS.match(ast.unparse(e)) for e in node.decorator_list):
            yield node


def _defaults_of(owner: ast.ClassDef) -> dict[str, str]:
    return {name: ast.dump(value) for name, value in defaults_in(owner)}


def _passes_field(call: ast.Call, owner: ast.ClassDef, name: str) -> bool:
    """Return True if the call passes the field. Fields of a base class come before it, so only its name counts then."""
    if any(each.arg == name for each in call.keywords):
        return True
    fields = [e.target.id for e in owner.body if isinstance(e, ast.AnnAssign) and isinstance(e.target, ast.Name)]
    is_plain = not owner.bases and not any(isinstance(each, ast.Starred) for each in call.args)
    return is_plain and fields.index(name) < len(call.args)
