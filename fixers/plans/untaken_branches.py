"""Find changed branches that no training takes: they need an argument or an option that nothing of the project passes.

The argument or option is False, None or 0 by default. An option counts only if commands or documents start all programs
that contain its branch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from fixers.frame.change import FileChange, SkippedPlace
from fixers.frame.source_fixer import Rewrite
from fixers.plans.call_sites import calls_of
from fixers.plans.neutral_changes import FUNCTIONS, passes
from fixers.plans.owners import PYTHON, Owners
from fixers.plans.uncalled import is_only_wrapped
from fixers.plans.used_names import source_of
from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import tail_of
from fixers.sources.launched import Launched, is_document, scripts_of
from fixers.sources.option_defaults import defaults_in
from fixers.sources.python import PythonSource
from fixers.sources.source import Source

UNTAKEN = "code that runs only with an argument which nothing passes"
FALSE = (False, None, 0)
OF_PRECISION = re.compile(r"bf16|bfloat|fp16|float16|half|fp32|float32|dtype|precision|amp", re.IGNORECASE)
"""Matches names of switches of the precision: fixers add float16 spellings of them, so their branches change."""
SETS_ANY = re.compile(rb"\bsetattr\(|\b(?:__dict__|vars\([\w.]*\))\.update\(|\bset_defaults\(")
"""Matches code that may set every option."""
COMMENT = re.compile(rb"(?:^|[ \t\"'])#.*", re.MULTILINE)


class _Branch(NamedTuple):
    """Code that runs only if the argument `name` of `function` is true, or, without function, if the option is.

    `whole`: the conditional expression that contains the code, or the code itself.
    """

    function: str
    name: str
    span: tuple[int, int]
    whole: tuple[int, int]

    @property
    def key(self) -> str:
        return f"{self.function}?{self.name}"


def find_untaken(changes: Iterable[FileChange], owners: Owners, launched: Collection[Launched]) -> tuple[str, ...]:
    """Return the arguments and options whose branches change, but that nothing passes, as `path:function?name`."""
    return tuple(sorted(f"{change.path}:{key}" for change in changes for key in _untaken(change, owners, launched)))


def may_be_untaken(changes: Iterable[FileChange]) -> bool:
    """Return True if a change edits a branch that an argument or option with a false default may select."""
    return any(_changed(each) for each in changes)


def without_branches(rewrite: Rewrite, source: Source, untaken: Collection[str]) -> Rewrite:
    """Return the rewrite without the edits in branches that nothing selects. `untaken`: as of `find_untaken`."""
    keys = {each.rpartition(":")[2] for each in untaken if each.startswith(f"{source.path}:")}
    if not keys or not rewrite.edits:
        return rewrite
    spans = [each.span for each in _branches(source.python) if each.key in keys]
    left = [edit for edit in rewrite.edits if any(start <= edit.start < end for start, end in spans)]
    kept = tuple(edit for edit in rewrite.edits if edit not in left)
    places = tuple(SkippedPlace(source.where(edit.start), UNTAKEN) for edit in left)
    return Rewrite(kept, rewrite.findings, rewrite.skipped + places)


def _untaken(change: FileChange, owners: Owners, launched: Collection[Launched]) -> Iterator[str]:
    for key in _changed(change):
        function, _, name = key.partition("?")
        if not (_is_passed(function, name, change, owners) if function else _is_set(name, change, owners, launched)):
            yield key


def _changed(change: FileChange) -> list[str]:
    source = source_of(change.path, change.before) if change.path.endswith(".py") else None
    branches = _branches(source) if source is not None else ()
    changed = (each for each in branches if change.before[slice(*each.whole)] not in change.after)
    return list(dict.fromkeys(each.key for each in changed))


def _branches(source: PythonSource) -> Iterator[_Branch]:
    choices: tuple[ast.If | ast.IfExp, ...] = (*source.names.of_type(ast.If), *source.names.of_type(ast.IfExp))
    for node in choices:
        needed = list(_needed(node.test))
        if not needed:
            continue
        first, last = (node.body, node.body) if isinstance(node, ast.IfExp) else (node.body[0], node.body[-1])
        span = source.span(first)[0], source.span(last)[1]
        whole = source.span(node) if isinstance(node, ast.IfExp) else span
        function = source.names.function(node)
        for name, is_argument in needed:
            if OF_PRECISION.search(name):
                continue
            if not is_argument:
                yield _Branch("", name, span, whole)
            elif isinstance(function, FUNCTIONS) and _is_false_by_default(function, name):
                yield _Branch(function.name, name, span, whole)


def _needed(test: ast.expr) -> Iterator[tuple[str, bool]]:
    """Yield the names that must be true, each with True for a plain name, and False for an attribute."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            for each in values:
                yield from _needed(each)
        case ast.Name(id=name):
            yield name, True
        case ast.Attribute(attr=name):
            yield name, False


def _is_false_by_default(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Return True if the argument has a false default, and the function never assigns the name."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    pairs = [*zip(reversed(positional), reversed(given.defaults), strict=False)]
    pairs += [(one, value) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value]
    default = next((value for one, value in pairs if one.arg == name), None)
    if not isinstance(default, ast.Constant) or default.value not in FALSE:
        return False
    names = (each for each in ast.walk(function) if isinstance(each, ast.Name))
    return not any(each.id == name and isinstance(each.ctx, ast.Store) for each in names)


def _is_passed(name: str, argument: str, change: FileChange, owners: Owners) -> bool:
    """Return True if a call may pass the argument of the function, or if not all of its calls are known."""
    source = source_of(change.path, change.before)
    own = [each for each in source.tree.body if isinstance(each, FUNCTIONS) and each.name == name] if source else []
    if len(own) != 1 or not is_only_wrapped(own[0]) or _is_named(name, owners, ()):
        return True
    calls = calls_of(name, change.path, owners, partial=True)
    return not calls or any(_may_pass(each, own[0], argument) for each in calls)


def _may_pass(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, argument: str) -> bool:
    unpacks = any(isinstance(each, ast.Starred) for each in call.args) or any(e.arg is None for e in call.keywords)
    return unpacks or passes(call, function, argument)


def _is_set(name: str, change: FileChange, owners: Owners, launched: Collection[Launched]) -> bool:
    """Return True if a text of the project may set the option, or if it is not declared as one with a false default."""
    programs = owners.of_existing(change.path)
    entries = [each.entry for each in owners.programs]
    started = {entry for each in launched for entry in scripts_of(each, entries)}
    if not programs or any(each.started or each.entry not in started for each in programs):
        return True
    paths = {path for each in programs for path in each.paths if path.endswith(".py")}
    return _is_named(name, owners, paths)


def _is_named(name: str, owners: Owners, within: Collection[str]) -> bool:
    """Return True if a text may set the option `name`, or if the files `within` do not declare it once as false.

    Without these files, return True if a config, a command or a document contains the name.
    """
    spelled = re.compile(rb"(?<!\w)%b(?!\w)" % re.escape(name.encode()).replace(b"_", b"[_-]"))
    declared = 0
    for path, text in owners.texts:
        if not path.endswith(PYTHON):
            if spelled.search(text if is_document(path) else COMMENT.sub(b"", text)):
                return True
        elif within and spelled.search(text):
            found = _declared_in(path, text, name) if path in within else None
            if found is None:
                return True
            declared += found
    return bool(within) and declared != 1


def _declared_in(path: str, text: bytes, name: str) -> int | None:
    source = None if SETS_ANY.search(text) else source_of(path, text)
    return None if source is None else _declarations(source, name)


def _declarations(source: PythonSource, name: str) -> int | None:
    """Return how often the file declares the option with a false default, or None if it may set it."""
    known: set[ast.AST] = set()
    declared = 0
    for node in source.names.nodes:
        if isinstance(node, ast.ClassDef) or (isinstance(node, ast.Call) and tail_of(node) == "add_argument"):
            for default in (value for option, value in _options(node) if option == name):
                if default is not None and not (isinstance(default, ast.Constant) and default.value in FALSE):
                    return None
                declared += 1
                known |= {node, *ast.walk(node)} if isinstance(node, ast.Call) else set(_fields(node, name))
    return None if any(_sets(each, name) for each in source.names.nodes if each not in known) else declared


def _options(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the options that the node declares, with their defaults. A `store_true` option has none."""
    yield from defaults_in(node)
    if isinstance(node, ast.Call) and any(constant_of(each.value) == "store_true" for each in node.keywords):
        names = [str(constant_of(each)) for each in node.args]
        if names and not any(each.arg == "default" for each in node.keywords):
            yield max(names, key=len).lstrip("-").replace("-", "_"), None


def _fields(node: ast.AST, name: str) -> Iterator[ast.AST]:
    for each in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(each, ast.AnnAssign) and getattr(each.target, "id", "") == name:
            yield from ast.walk(each)


def _sets(node: ast.AST, name: str) -> bool:
    """Return True if the node may set the option: anything but a read of an attribute."""
    match node:
        case ast.Attribute(attr=attribute, ctx=context):
            return attribute == name and not isinstance(context, ast.Load)
        case ast.Name(id=word) | ast.arg(arg=word) | ast.keyword(arg=word):
            return word == name
        case ast.Constant(value=str(word)):
            return re.search(rf"(?<!\w){name}(?!\w)", word.replace("-", "_")) is not None
    return False
