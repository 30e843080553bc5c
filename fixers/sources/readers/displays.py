"""Find readers in lists of values: choices of options, Literal annotations, tables, enumerations and registries."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import tail_of
from fixers.sources.python import PythonSource
from fixers.sources.readers.reader import ANY, BF16_WORD, Reader, option_name
from fixers.sources.readers.subjects import folds_case, owner_of, subject_of
from remote.protocol.dataclass import dataclass

DECLARES = ("add_argument", "add_option", "option", "Option", "Argument", "argument")
CHOOSES = ("Choice", "Literal")
ENUMS = ("Enum", "StrEnum", "IntEnum")
DTYPE_ATTRIBUTES = ("bfloat16", "float16", "half", "float32", "float", "float64", "double")
TORCH_WORDS = ("bfloat16", "float16", "half", "float32", "float", "float64", "double")
SIZES = (2, 16)
SAFETENSORS = frozenset({"F32", "F16", "F64"})
"""Dtype names in safetensors headers: a table with these keys describes files, not an option."""
Display = ast.List | ast.Tuple | ast.Set
Row = tuple[str, ast.expr, ast.expr]
"""The key as a string, the node of the key, and the node of the value."""


@dataclass(frozen=True)
class Found:
    """A reader, and the node after which its float16 value is inserted (None if that needs more than one line)."""

    reader: Reader
    spot: ast.expr | ast.If | ast.match_case | None = None


def words_of(display: Display) -> tuple[str, ...]:
    """Return the strings in a list, tuple or set."""
    return tuple(str(constant_of(each)) for each in display.elts if isinstance(constant_of(each), str))


def names_bfloat16(words: tuple[str, ...]) -> bool:
    return any(BF16_WORD.fullmatch(word) for word in words)


def find_choices(source: PythonSource, call: ast.Call) -> Iterator[Found]:
    """Yield a reader for each flag whose argparse, click or typer option declares choices."""
    if tail_of(call) not in DECLARES:
        return
    flags = [flag for each in call.args if isinstance(flag := constant_of(each), str)]
    display = next((each for keyword in call.keywords if (each := _choices(source, keyword))), None)
    if display is not None:
        for flag in flags:
            yield from _of_display(source, display, option_name(flag))


def _choices(source: PythonSource, keyword: ast.keyword) -> Display | None:
    value: ast.expr | None = keyword.value
    if isinstance(value, ast.Call) and tail_of(value) in CHOOSES and value.args:
        value = value.args[0]
    elif keyword.arg != "choices":
        return None
    return display_of(source, value)


def display_of(source: PythonSource, value: ast.expr | None) -> Display | None:
    """Return the value if it is a list, tuple or set, else None. A name stands for the value that is assigned to it."""
    if isinstance(value, ast.Call) and tail_of(value) in ("list", "tuple", "set", "frozenset", "sorted") and value.args:
        value = value.args[0]
    if isinstance(value, (ast.Name, ast.Attribute)):
        name = value.id if isinstance(value, ast.Name) else value.attr
        value = next((each for each in _assigned(source, name) if isinstance(each, Display)), None)
    return value if isinstance(value, Display) else None


def _assigned(source: PythonSource, name: str) -> list[ast.expr]:
    return source.remember("values-by-name", lambda: _values_by_name(source)).get(name, [])


def _values_by_name(source: PythonSource) -> dict[str, list[ast.expr]]:
    """Return the values that the file assigns to each name or attribute."""
    values: dict[str, list[ast.expr]] = {}
    for node in source.names.of_type(ast.Assign):
        for target in node.targets:
            name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
            values.setdefault(name, []).append(node.value)
    return values


def _of_display(source: PythonSource, display: Display, option: str, *, folds: bool = False) -> Iterator[Found]:
    words = words_of(display)
    if names_bfloat16(words):
        spot = next(each for each in display.elts if BF16_WORD.fullmatch(str(constant_of(each))))
        yield _found(source, display, option, words, spot, folds=folds)


def find_annotation(source: PythonSource, node: ast.AnnAssign | ast.arg) -> Iterator[Found]:
    """Yield the reader of `precision: Literal["bf16", "fp32"]`, or of `choices` in a dataclass field's metadata."""
    name = node.arg if isinstance(node, ast.arg) else getattr(node.target, "id", getattr(node.target, "attr", ""))
    option = option_name(name)
    if node.annotation is not None:
        for each in ast.walk(node.annotation):
            yield from _of_literal(source, each, option)
    if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
        for inner in ast.walk(node.value):
            if isinstance(inner, ast.Dict):
                for key, value in zip(inner.keys, inner.values, strict=True):
                    display = display_of(source, value) if constant_of(key) == "choices" else None
                    if display is not None:
                        yield from _of_display(source, display, option)


def _of_literal(source: PythonSource, node: ast.AST, option: str) -> Iterator[Found]:
    if isinstance(node, ast.Name):
        for value in _assigned(source, node.id):
            yield from _of_literal(source, value, option)
    if not isinstance(node, ast.Subscript) or not _is_called(node.value, ("Literal",)):
        return
    display = node.slice if isinstance(node.slice, ast.Tuple) else ast.Tuple([node.slice], ast.Load())
    yield from _of_display(source, ast.copy_location(display, node.slice), option)


def _is_called(node: ast.expr, names: tuple[str, ...]) -> bool:
    return (node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")) in names


def find_table(source: PythonSource, table: ast.Dict | ast.Call) -> Iterator[Found]:
    """Yield a reader for each lookup in a dictionary with precision names as keys.

    If the file never looks up a key, the dictionary is a reader of any option. A call `dict(bf16=torch.bfloat16, ...)`
    counts as such a dictionary if its values are dtypes.
    """
    rows = rows_of(source, table)
    words = tuple(word for word, _, _ in rows)
    if not names_bfloat16(words) or SAFETENSORS.intersection(words) or not _is_table_of_precisions(rows):
        return
    _, key, value = next(row for row in rows if BF16_WORD.fullmatch(row[0]))
    if len(words) == 1 and (constant_of(value) in SIZES or not _has_counterpart_value(value)):
        return
    spot = table if _has_counterpart_value(value) else None
    options = list(dict.fromkeys(_lookups(source, table)))
    condition = _condition(source, table)
    for option, folds in options or [(ANY, False)]:
        found = _found(source, key, option, words, spot, folds=folds)
        yield replace(found, reader=replace(found.reader, condition=condition))


def _condition(source: PythonSource, table: ast.expr) -> str:
    """Return the test, as source text, of the `if` whose body contains the table, or an empty string."""
    statement = source.names.statement(table)
    above = source.names.parent(statement)
    return source.segment(above.test) if isinstance(above, ast.If) and statement in above.body else ""


def rows_of(source: PythonSource, table: ast.Dict | ast.Call) -> list[Row]:
    """Return the rows with string keys of a dictionary, or of a `dict(...)` call whose values are dtypes."""
    if isinstance(table, ast.Dict):
        pairs = zip(table.keys, table.values, strict=True)
        return [(word, key, value) for key, value in pairs if key and isinstance(word := constant_of(key), str)]
    if not is_table_of_dtypes(source, table):
        return []
    return [(each.arg, each.value, each.value) for each in table.keywords if each.arg is not None]


def is_table_of_dtypes(source: PythonSource, call: ast.Call) -> bool:
    """Return True if the call builds a table of dtypes: `dict(bf16=torch.bfloat16, auto="auto")`."""
    if not (isinstance(call.func, ast.Name) and call.func.id == "dict") or call.args or not call.keywords:
        return False
    named = [each.value for each in call.keywords if constant_of(each.value) not in ("auto", None)]
    meanings = ((source.names.meaning(each) or "").rpartition(".") for each in named)
    return bool(named) and all(module == "torch" and name in DTYPE_ATTRIBUTES for module, _, name in meanings)


def _is_table_of_precisions(rows: list[Row]) -> bool:
    """Return False if a value is a mapping or a boolean, as in a table of switches (`{"bf16": {"enabled": True}}`)."""
    return not any(isinstance(value, ast.Dict) or isinstance(constant_of(value), bool) for _, _, value in rows)


def _has_counterpart_value(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return value.value in SIZES or bool(BF16_WORD.fullmatch(str(value.value)))
    return isinstance(value, ast.Attribute) and value.attr == "bfloat16"


def _lookups(source: PythonSource, table: ast.Dict | ast.Call) -> Iterator[tuple[str, bool]]:
    """Yield the options that this file uses as keys of the table, and whether the file lowercases them first."""
    yield from _lookup(source, table)
    above = source.names.parent(table)
    targets = [above.target] if isinstance(above, ast.AnnAssign) else getattr(above, "targets", [])
    for written in (source.segment(target) for target in targets):
        for name in source.names.of_type(ast.Name):
            if name.id == written and isinstance(name.ctx, ast.Load):
                yield from _lookup(source, name)
        for attribute in source.names.of_type(ast.Attribute):
            if isinstance(attribute.ctx, ast.Load) and attribute.attr == written.rpartition(".")[2]:
                yield from _lookup(source, attribute)


def _lookup(source: PythonSource, node: ast.expr) -> Iterator[tuple[str, bool]]:
    above = source.names.parent(node)
    key: ast.expr | None = None
    if isinstance(above, ast.Subscript) and above.value is node:
        key = above.slice
    elif isinstance(above, ast.Attribute) and above.attr == "get":
        call = source.names.parent(above)
        key = call.args[0] if isinstance(call, ast.Call) and call.args else None
    if key is not None and not isinstance(key, ast.Constant):
        option = subject_of(source, key)
        if option is not None:
            yield option, folds_case(key)


def find_torch_lookup(source: PythonSource, call: ast.Call) -> Iterator[Found]:
    """Yield the reader of `getattr(torch, name)`, which accepts torch's dtype names."""
    match call:
        case ast.Call(func=ast.Name(id="getattr"), args=[module, key, *_]) if not isinstance(key, ast.Constant):
            option = subject_of(source, key)
            if option is not None and source.names.meaning(module) == "torch":
                yield _found(source, call, option, TORCH_WORDS, None)


def find_enumeration(source: PythonSource, node: ast.ClassDef) -> Iterator[Found]:
    """Yield the reader of an Enum of precisions, which accepts its values and names."""
    if not any(_is_called(base, ENUMS) for base in node.bases):
        return
    words: list[str] = []
    for each in node.body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            value = constant_of(each.value)
            words += [each.targets[0].id, *([value] if isinstance(value, str) else [])]
    if names_bfloat16(tuple(words)):
        yield _found(source, node, ANY, tuple(dict.fromkeys(words)), None)


def find_registration(source: PythonSource, node: ast.FunctionDef | ast.ClassDef) -> Iterator[Found]:
    """Yield the reader of `@register("bf16")`, with all names that the file registers with the same decorator."""
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call) or not BF16_WORD.fullmatch(str(_first(decorator))):
            continue
        name = source.segment(decorator.func)
        words: list[str] = []
        for call in source.names.of_type(ast.Call):
            word = _first(call)
            if isinstance(word, str) and source.segment(call.func) == name:
                words.append(word)
        if len(words) > 1:
            yield _found(source, decorator, ANY, tuple(words), None)


def _first(call: ast.Call) -> object:
    return constant_of(call.args[0]) if call.args else None


def _found(
    source: PythonSource,
    node: ast.expr | ast.stmt,
    option: str,
    words: tuple[str, ...],
    spot: ast.expr | None,
    *,
    folds: bool = False,
) -> Found:
    line = node.lineno
    owner = owner_of(source, node)
    display = isinstance(spot, ast.Constant)
    return Found(Reader(source.path, line, option, words, True, spot is not None, folds, owner, display), spot)
