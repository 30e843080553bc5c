"""Find the code that loads or casts a trained model in float16, in the file of the training or another file. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import tail_of, written
from fixers.sources.modules import Modules
from fixers.sources.optimized_models import makes_float32
from fixers.sources.options import DTYPES, entries_of, name_of_entry
from fixers.sources.python import PythonSource
from remote.protocol.dataclass import dataclass

HALVES = ("torch.float16", "torch.half")
HALF_WORDS = ("float16", "torch.float16", "fp16", "half")
LOADS = ("from_pretrained", "from_config")
KEEPS = ("to", "cuda", "train", "requires_grad_", "merge_and_unload", "eval")
WRAPS = ("get_peft_model", "prepare_model", "compile", "DataParallel", "DistributedDataParallel", "DDP")
DEEPEST = 6
Option = tuple[PythonSource, ast.expr | ast.keyword, ast.expr]
"""One entry of a dict: its file, its key and its value."""


@dataclass(frozen=True)
class _Search:
    modules: Modules
    source: PythonSource
    depth: int = 0

    def inside(self, source: PythonSource) -> _Search:
        return _Search(self.modules, source, self.depth + 1)


def half_origin(modules: Modules, source: PythonSource, owner: str) -> str | None:
    """Return the location where the model's weights become float16.

    Return None if there is no such location, or if the weights are later cast to float32.
    """
    return _origin_of_name(_Search(modules, source), owner)


def _origin_of_name(search: _Search, owner: str, within: ast.AST | None = None) -> str | None:
    """Return the location of the last assignment or cast that makes the model float16, or None."""
    source, origin = search.source, None
    if search.depth > DEEPEST:
        return None
    for call, value in _changes(source, owner, within):
        if value is not None:
            found = _origin_of_value(search, value, owner)
            origin = found if found != "" else origin
        elif makes_float32(source, call):
            origin = None
        elif _is_cast(source, call):
            origin = source.where(call)
    return origin


def _changes(source: PythonSource, owner: str, within: ast.AST | None) -> Iterator[tuple[ast.Call, ast.expr | None]]:
    """Yield assignments to the name `owner`, and statements that call a method of `owner`, in file order."""
    for node in source.names.nodes:
        if within is not None and source.names.function(node) is not within:
            continue
        match node:
            case ast.Assign(value=ast.Call() as call):
                if any(written(source, each) == owner for target in node.targets for each in _targets(target)):
                    yield call, call
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=held)) as call) if written(source, held) == owner:
                yield call, None


def _targets(target: ast.expr) -> list[ast.expr]:
    return target.elts[:1] if isinstance(target, ast.Tuple) else [target]


def _origin_of_value(search: _Search, value: ast.expr, owner: str = "") -> str | None:
    """Return the location where an assigned value becomes float16, else None.

    Return "" if the value is the model `owner`.
    """
    source = search.source
    if isinstance(value, (ast.Name, ast.Attribute)):
        name = written(source, value)
        return "" if name == owner else _origin_of_name(_Search(search.modules, source, search.depth + 1), name)
    if not isinstance(value, ast.Call):
        return None
    tail = tail_of(value)
    held = value.func.value if isinstance(value.func, ast.Attribute) else None
    if tail in LOADS:
        return source.where(value) if _loads_half(search, value) else None
    if held is not None and makes_float32(source, value):
        return None
    if held is not None and _is_cast(source, value):
        return source.where(value)
    if held is not None and tail in KEEPS:
        return _origin_of_value(search, held, owner)
    if tail in WRAPS and value.args:
        return _origin_of_value(search, value.args[0], owner)
    return _origin_of_function(search, value)


def _origin_of_function(search: _Search, call: ast.Call) -> str | None:
    """Return the location where the result of a project function becomes float16, or None."""
    defined = search.modules.definition(search.source, call.func)
    source, name = defined if defined is not None else (search.source, written(search.source, call.func))
    for function in source.names.of_type(ast.FunctionDef):
        if function.name != name or search.depth > DEEPEST:
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value is not None:
                value = node.value.elts[0] if isinstance(node.value, ast.Tuple) and node.value.elts else node.value
                inside = search.inside(source)
                named = written(source, value)
                return _origin_of_name(inside, named, function) if named else _origin_of_value(inside, value)
    return None


def _is_cast(source: PythonSource, call: ast.Call) -> bool:
    """Return True for `.half()`, and for `.to` with float16."""
    if tail_of(call) == "half":
        return not call.args
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "dtype")]
    return tail_of(call) == "to" and any(_is_half(source, each) for each in given)


def _loads_half(search: _Search, load: ast.Call) -> bool:
    for keyword in load.keywords:
        if keyword.arg in DTYPES and _is_half(search.source, keyword.value):
            return True
        if keyword.arg is None:
            for source, key, value in options_across(search.modules, search.source, keyword.value):
                if name_of_entry(key) in DTYPES and _is_half(source, value):
                    return True
    return False


def _is_half(source: PythonSource, value: ast.expr) -> bool:
    if constant_of(value) in HALF_WORDS or source.names.meaning(value) in HALVES:
        return True
    name = written(source, value)
    given = [each.value for each in source.names.of_type(ast.Assign) if name in map(source.segment, each.targets)]
    return bool(name and given) and all(source.names.meaning(each) in HALVES for each in given)


def options_across(modules: Modules, source: PythonSource, options: ast.expr) -> Iterator[Option]:
    """Yield every entry of `**options`, even if another file defines the dict.

    `CONFIG["training"]` selects a nested dict.
    """
    if isinstance(options, ast.Subscript):
        for held, key, value in options_across(modules, source, options.value):
            if name_of_entry(key) == constant_of(options.slice) and constant_of(options.slice) is not ...:
                yield from options_across(modules, held, value)
        return
    defined = modules.definition(source, options)
    if defined is not None:
        source, name = defined
        options = next((each for each in source.names.of_type(ast.Name) if each.id == name), options)
    if isinstance(options, ast.Call) and tail_of(options) != "dict":
        yield from _options_returned(modules, source, options)
        return
    yield from ((source, *entry) for entry in entries_of(source, options))


def _options_returned(modules: Modules, source: PythonSource, call: ast.Call) -> Iterator[Option]:
    """Yield the entries of the dicts that a function of the project returns."""
    source, name = modules.definition(source, call.func) or (source, tail_of(call))
    for function in source.names.of_type(ast.FunctionDef):
        for node in ast.walk(function) if function.name == name else ():
            if isinstance(node, ast.Return) and node.value is not None:
                yield from ((source, *entry) for entry in entries_of(source, node.value))
