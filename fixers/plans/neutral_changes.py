"""Judge whether a change to a shared module affects the behaviour of a program.

A change is neutral for a program if it only adds rows, values or branches, if it changes functions that the program
does not use, or if it changes defaults of arguments that all calls of the program pass.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from fixers.frame.change import FileChange
from fixers.plans.programs import Program
from fixers.sources.expressions import tail_of
from fixers.sources.python import TREES
from fixers.sources.syntax import parse_python

WORD = re.compile(rb"\w+")
DISPLAYS = (ast.Dict, ast.List, ast.Tuple, ast.Set)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
WRAPS = re.compile(r"no_grad|inference_mode|autocast|cache|wraps|\bjit\b|compile")


def is_neutral(change: FileChange, program: Program, read: Callable[[str], bytes]) -> bool:
    """Return True if the program behaves in the same way before and after the change of one of its modules."""
    return _leaves(change, program, read, _only_adds)


def is_unneeded(change: FileChange, program: Program, read: Callable[[str], bytes]) -> bool:
    """Return True if the program uses no changed code. Added rows and branches count as changed code."""
    return _leaves(change, program, read, _is_same)


def _is_same(old: object, new: object) -> bool:
    """Return True if the nodes are equal, apart from their positions. The comparison ends at the first difference."""
    if isinstance(old, ast.AST) and isinstance(new, ast.AST):
        fields = ((getattr(old, name, None), getattr(new, name, None)) for name in old._fields)
        return type(old) is type(new) and all(_is_same(*pair) for pair in fields)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(_is_same(*pair) for pair in zip(old, new, strict=True))
    return type(old) is type(new) and old == new


def _leaves(
    change: FileChange,
    program: Program,
    read: Callable[[str], bytes],
    passes: Callable[[ast.AST, ast.AST], bool],
) -> bool:
    if not change.path.endswith(".py") or change.path == program.entry:
        return False
    with suppress(SyntaxError, ValueError, OSError):
        edited = _edited(change.before, change.after)
        if edited is None:
            return False
        changed = [pair for pair in edited.pairs if not passes(*pair)]
        if not changed or not all(isinstance(old, DEFINITIONS) for old, _ in changed):
            return not changed
        others = [read(module.path) for module in program.modules if module.path != change.path]
        return _is_unused(changed, edited.body, (change.before, *others))
    return False


class _Statement(NamedTuple):
    """A top-level statement of a module. `name` is that of a definition, otherwise "". `text` includes decorators."""

    name: str
    is_main: bool
    text: bytes


class _Edited(NamedTuple):
    """A module before a change, and the statements whose text changed, outside of the main block."""

    body: tuple[_Statement, ...]
    pairs: tuple[tuple[ast.stmt, ast.stmt], ...]


@lru_cache(maxsize=16)
def _edited(before: bytes, after: bytes) -> _Edited | None:
    """Return what a change edits, or None if it adds or removes a statement. Raises SyntaxError, ValueError."""
    old, new = _statements(before), _statements(after)
    if len(old) != len(new):
        return None
    body = tuple(_Statement(_name_of(node), _is_main(node), text) for node, text in old)
    rows = zip(body, old, new, strict=True)
    pairs = ((one, other[0]) for row, (one, text), other in rows if text != other[1] and not row.is_main)
    return _Edited(body, tuple(pairs))


def _statements(source: bytes) -> list[tuple[ast.stmt, bytes]]:
    lines = source.splitlines(keepends=True)
    body = TREES.parse(source).body
    return [(each, b"".join(lines[_first_line(each) - 1 : each.end_lineno])) for each in body]


def _name_of(statement: ast.stmt) -> str:
    return statement.name if isinstance(statement, DEFINITIONS) else ""


def _first_line(statement: ast.stmt) -> int:
    decorators = statement.decorator_list if isinstance(statement, DEFINITIONS) else []
    return min((each.lineno for each in decorators), default=statement.lineno)


def _is_unused(
    changed: Sequence[tuple[ast.stmt, ast.stmt]], body: Sequence[_Statement], texts: Sequence[bytes]
) -> bool:
    """Return True if each changed definition is unused, or all its calls pass every argument with a changed default.

    `texts`: the sources of all modules, beginning with the changed module. `body`: the statements of the changed
    module.
    """
    return all(
        isinstance(old, DEFINITIONS)
        and (not _is_used(old.name, body, texts[1:]) or _defaults_are_given(old, new, texts))
        for old, new in changed
    )


def _is_used(name: str, body: Sequence[_Statement], others: Sequence[bytes]) -> bool:
    """Return True if another module, or a statement of this module that runs on import, may use the definition.

    Every word in the source text of a statement counts as a use of the definition with that name.
    """
    definitions = [(each.name, _words(each.text)) for each in body if each.name]
    reaching: set[str] = set()
    new = {name}
    while new:
        reaching |= new
        new = {user for user, words in definitions if user not in reaching and not words.isdisjoint(new)}
    if any(_contains(other, each.encode()) for other in others for each in reaching):
        return True
    plain = (each for each in body if not each.name and not each.is_main)
    return any(not _words(each.text).isdisjoint(reaching) for each in plain)


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _contains(text: bytes, name: bytes) -> bool:
    """Return True if the text contains the name as a word. The substring test is fast and excludes most files."""
    return name in text and re.search(rb"(?<!\w)%b(?!\w)" % name, text) is not None


@lru_cache(maxsize=1024)
def _words(text: bytes) -> frozenset[str]:
    return frozenset(each.decode() for each in WORD.findall(text) if each.isascii())


def _defaults_are_given(old: ast.stmt, new: ast.stmt, texts: Sequence[bytes]) -> bool:
    """Return True if only defaults of arguments change, and every call in the texts passes these arguments."""
    if not isinstance(old, FUNCTIONS) or not isinstance(new, FUNCTIONS):
        return False
    names = changed_defaults(old, new)
    if not names:
        return False
    called = old.name.encode()
    calls = [call for text in texts if called in text for call in _calls(text, old.name)]
    named = sum(len(re.findall(rb"(?<!def )\b%b\b(?=[ ]*\()" % called, text)) for text in texts)
    return len(calls) == named and all(passes(call, old, name) for call in calls for name in names)


def changed_defaults(old: ast.FunctionDef | ast.AsyncFunctionDef, new: ast.stmt) -> list[str]:
    """Return the arguments whose defaults differ. The list is empty if the functions also differ in other ways."""
    assert isinstance(new, FUNCTIONS)
    plain = [ast.dump(each) for each in (*old.body, *old.decorator_list)]
    if plain != [ast.dump(each) for each in (*new.body, *new.decorator_list)]:
        return []
    before, after = _defaults(old), _defaults(new)
    return [name for name in before if before[name] != after.get(name)] if before.keys() == after.keys() else []


def _defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    pairs = [*zip(reversed(positional), reversed(given.defaults), strict=False)]
    pairs += [(one, value) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value]
    return {one.arg: ast.dump(value) for one, value in pairs}


def _calls(text: bytes, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(parse_python(text)):
        if isinstance(node, ast.Call) and tail_of(node) == name:
            yield node


def passes(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Return True if the call passes the argument."""
    positional = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    if _is_bound(call, function, positional[:1]):
        positional = positional[1:]
    at = positional.index(name) if name in positional else len(call.args)
    given = [each for each in call.args if not isinstance(each, ast.Starred)]
    return len(given) > at or any(each.arg == name for each in call.keywords)


def _is_bound(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, first: Sequence[str]) -> bool:
    """Return True if Python passes the first argument: for a method of an object, and for a constructor."""
    if first not in (["self"], ["cls"]):
        return False
    match call.func:
        case ast.Attribute(value=owner, attr=called) if called == function.name:
            return first == ["cls"] or not getattr(owner, "attr", getattr(owner, "id", ""))[:1].isupper()
    return function.name == "__init__"


def _only_adds(old: ast.AST, new: ast.AST) -> bool:
    """Return True if the new node is the old one with more rows, values, keywords or branches."""
    if type(old) is not type(new):
        return _is_longer_choice(old, new)
    if isinstance(old, ast.Call) and isinstance(new, ast.Call):
        return _only_adds(old.func, new.func) and _adds_arguments(old, new)
    if isinstance(old, DISPLAYS):
        return _adds_items(old, new)
    other = isinstance(old, ast.IfExp) and isinstance(new, ast.IfExp) and ast.dump(old.test) != ast.dump(new.test)
    if other:
        return _is_longer_choice(old, new)
    return all(_fields_only_add(getattr(old, name, None), getattr(new, name, None)) for name in old._fields)


def _fields_only_add(old: object, new: object) -> bool:
    if isinstance(old, ast.AST) and isinstance(new, ast.AST):
        return _only_adds(old, new)
    if isinstance(old, list) and isinstance(new, list):
        if len(old) == len(new) and all(_fields_only_add(*pair) for pair in zip(old, new, strict=True)):
            return True
        return len(new) == 1 and isinstance(new[0], ast.If) and _fields_only_add(old, new[0].orelse)
    return old == new


def _is_longer_choice(old: ast.AST, new: ast.AST) -> bool:
    """Return True if the new node is `torch.float16 if x == "fp16" else OLD`, where OLD is the old node."""
    return isinstance(new, ast.IfExp) and _only_adds(old, new.orelse)


def _adds_arguments(old: ast.Call, new: ast.Call) -> bool:
    """Return True if the call only gains option names, such as `--fp16`, or if a `dict(...)` only gains keywords."""
    added = new.args[len(old.args) :] if len(new.args) >= len(old.args) else [new]
    first = len(new.args) - len(added)
    if not all(isinstance(each, ast.Constant) for each in added):
        return False
    if not all(_only_adds(*pair) for pair in zip(old.args, new.args[:first], strict=True)):
        return False
    return _adds_keywords(old, new)


def _adds_keywords(old: ast.Call, new: ast.Call) -> bool:
    keywords = {each.arg: each.value for each in new.keywords}
    if len(new.keywords) > len(old.keywords) and tail_of(new) != "dict":
        return False
    return all(each.arg in keywords and _only_adds(each.value, keywords[each.arg]) for each in old.keywords)


def _adds_items(old: ast.AST, new: ast.AST) -> bool:
    mine, others = _items(old), _items(new)
    return all(any(one == other for other in others) for one in mine) or (
        len(mine) == len(others) and all(_fields_only_add(getattr(old, n), getattr(new, n)) for n in old._fields)
    )


def _items(display: ast.AST) -> list[str]:
    if isinstance(display, ast.Dict):
        keys = ["**" if key is None else ast.dump(key) for key in display.keys]
        return [f"{key}: {ast.dump(value)}" for key, value in zip(keys, display.values, strict=True)]
    return [ast.dump(each) for each in getattr(display, "elts", ())]
