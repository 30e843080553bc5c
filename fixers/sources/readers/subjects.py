"""Find the name of the option that an expression reads."""

from __future__ import annotations

import ast
import re

from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import assigned_before
from fixers.sources.python import PythonSource
from fixers.sources.readers.reader import ANY, option_name

NAMES_PRECISION = re.compile(r"(?:.*_)?(?:d_?type|\w*_type|precision|amp|mp|autocast|weights|prec)$", re.IGNORECASE)
FOLDS = ("lower", "upper", "casefold")
KEEPS = (*FOLDS, "strip")
VALIDATES = ("validator", "field_validator", "field_serializer", "validates")
READS_KEY = ("get", "pop", "setdefault")


def subject_of(source: PythonSource, node: ast.expr) -> str | None:
    """Return the name of the option that the expression reads.

    Return ANY for a variable whose name is not about precision, and None for an expression that reads no option.
    """
    node = without_cast(node)
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return option_name(key)
        case ast.Attribute(attr="value" | "name", value=inner):
            return subject_of(source, inner)
        case ast.Attribute(attr=name):
            return option_name(name)
        case ast.Name():
            return _of_name(source, node)
        case ast.Call(func=ast.Attribute(attr=method), args=[key, *_]) if method in READS_KEY:
            return _of_key(key)
        case ast.Call(func=ast.Name(id="getattr"), args=[_, key, *_]):
            return _of_key(key)
        case ast.Call(args=[only], keywords=[]):
            return subject_of(source, only)
    return None


def without_cast(node: ast.expr) -> ast.expr:
    """Return the expression without `.lower()`, `.strip()`, `str(...)` or `:=` around it."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(attr=method, value=inner)) if method in KEEPS:
                node = inner
            case ast.Call(func=ast.Name(id="str"), args=[inner]):
                node = inner
            case ast.NamedExpr(value=inner):
                node = inner
            case _:
                return node


def folds_case(node: ast.expr) -> bool:
    """Return True if the expression changes case, as in `x.lower()`."""
    calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(isinstance(each.func, ast.Attribute) and each.func.attr in FOLDS for each in calls)


def _of_key(key: ast.expr) -> str | None:
    word = constant_of(key)
    return option_name(word) if isinstance(word, str) else None


def _of_name(source: PythonSource, node: ast.Name) -> str | None:
    if NAMES_PRECISION.fullmatch(node.id):
        return option_name(node.id)
    for value in assigned_before(source, node, node.id):
        if not (isinstance(value, ast.Name) and value.id == node.id):
            return subject_of(source, value) if not isinstance(value, ast.Constant) else None
    function = source.names.function(node)
    if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and (validated := _validated(function)):
        return validated
    return ANY


def _validated(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    """Return the field that a pydantic validator checks, or None for other functions."""
    for each in function.decorator_list:
        if isinstance(each, ast.Call) and _tail(each.func) in VALIDATES and each.args:
            return _of_key(each.args[0])
    return None


def _tail(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def owner_of(source: PythonSource, node: ast.AST) -> str:
    """Return the name of the enclosing class, or else of the outermost function, or an empty string at module level."""
    owner = ""
    for above in source.names.ancestors(node):
        if isinstance(above, ast.ClassDef):
            return above.name
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
            owner = above.name
    return owner
