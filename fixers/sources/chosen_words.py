"""Find the option to which Python code assigns a value, by a keyword, key, name, default, fallback or flag."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from fixers.sources.python import PythonSource

DEFAULTS = ("default", "const", "default_value", "value", "default_factory")
LITERAL = re.compile(r"([rRuU]?)(\"\"\"|'''|\"|')(.*)\2", re.DOTALL)


def constant_of(node: ast.AST | None) -> object:
    """Return the value of a literal, or `...` for any other node."""
    return node.value if isinstance(node, ast.Constant) else ...


def rewritten_literal(source: PythonSource, node: ast.Constant, word: str) -> str | None:
    """Return the literal with the value `word` and the same quotes.

    Return None for a concatenated or escaped literal.
    """
    literal = LITERAL.fullmatch(source.segment(node))
    if literal is None or literal[3] != node.value:
        return None
    prefix, quote, _ = literal.groups()
    return f"{prefix}{quote}{word}{quote}"


def is_chosen(source: PythonSource, node: ast.expr, called: re.Pattern[str]) -> bool:
    """Return True if a name that matches `called` gets this value, directly or as part of a conditional expression."""
    return chosen_name(source, node, called) is not None


def chosen_name(source: PythonSource, node: ast.expr, called: re.Pattern[str]) -> str | None:
    """Return the name that gets this value, directly or as part of a conditional expression.

    Return None if the name does not match `called`.
    """
    child = _whole_choice(source, node)
    above = source.names.parent(child)
    match above:
        case ast.keyword(arg=str(name)):
            return _if_called(called, name) or (_default_of(source, called, above) if name in DEFAULTS else None)
        case ast.Dict():
            key = above.keys[above.values.index(child)] if child in above.values else None
            return _if_called(called, constant_of(key))
        case ast.Assign():
            return _first(_named(called, target) for target in above.targets)
        case ast.AnnAssign():
            return _named(called, above.target) if child is above.value else None
        case ast.arguments():
            return _default_argument(called, above, child)
        case ast.Call():
            return _fallback(source, called, above, child)
        case ast.List() | ast.Tuple():
            return _flag_before(called, above, child)
    return None


def returning_function(source: PythonSource, node: ast.expr, called: re.Pattern[str]) -> str | None:
    """Return the name of the function that returns this value. Return None if the name does not match `called`."""
    function = source.names.function(node)
    if isinstance(source.names.parent(_whole_choice(source, node)), ast.Return) and isinstance(
        function, (ast.FunctionDef, ast.AsyncFunctionDef)
    ):
        return _if_called(called, function.name)
    return None


def callee_of(source: PythonSource, node: ast.expr) -> ast.expr | None:
    """Return the function that gets this value as a keyword argument. Return None for any other value."""
    above = source.names.parent(_whole_choice(source, node))
    call = source.names.parent(above) if isinstance(above, ast.keyword) else None
    return call.func if isinstance(call, ast.Call) else None


def _whole_choice(source: PythonSource, node: ast.expr) -> ast.expr:
    """Return the outermost `a if x else b` or `a or b` that can evaluate to the node."""
    above = source.names.parent(node)
    while isinstance(above, (ast.IfExp, ast.BoolOp)) and not (isinstance(above, ast.IfExp) and node is above.test):
        node, above = above, source.names.parent(above)
    return node


def _first(names: Iterable[str | None]) -> str | None:
    return next((name for name in names if name is not None), None)


def _if_called(called: re.Pattern[str], name: object) -> str | None:
    return name if isinstance(name, str) and called.match(name.lstrip("-")) else None


def _named(called: re.Pattern[str], target: ast.expr) -> str | None:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _if_called(called, name)
        case ast.Subscript(slice=ast.Constant(value=name)):
            return _if_called(called, name)
    return None


def _default_of(source: PythonSource, called: re.Pattern[str], keyword: ast.keyword) -> str | None:
    """Return the option name for a default in `add_argument("--dtype", default=...)` or `field(default=...)`.

    Return None for other values.
    """
    call = source.names.parent(keyword)
    if not isinstance(call, ast.Call):
        return None
    if (flag := _first(_if_called(called, constant_of(each)) for each in call.args)) is not None:
        return flag
    holder = source.names.parent(call)
    if isinstance(holder, ast.AnnAssign):
        return _named(called, holder.target)
    return _first(_named(called, target) for target in holder.targets) if isinstance(holder, ast.Assign) else None


def _default_argument(called: re.Pattern[str], arguments: ast.arguments, child: ast.expr) -> str | None:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return _first(_if_called(called, argument.arg) for argument, default in pairs if default is child)


def _fallback(source: PythonSource, called: re.Pattern[str], call: ast.Call, child: ast.expr) -> str | None:
    """Return the option name for a fallback argument, as in `config.get("dtype", "bfloat16")`, or None.

    For `getattr(torch, "bfloat16")`, the name is `dtype`. For `typer.Option` or `typer.Argument`, it is the flag.
    """
    if child not in call.args:
        return None
    before = call.args[: call.args.index(child)]
    if len(before) == 1 and source.names.meaning(before[0]) == "torch":
        return "torch" if isinstance(call.func, ast.Name) and call.func.id == "getattr" else None
    if source.names.meaning(call.func) in ("typer.Option", "typer.Argument"):
        return _first(_if_called(called, constant_of(each)) for each in call.args)
    return _if_called(called, constant_of(before[-1])) if before else None


def _flag_before(called: re.Pattern[str], display: ast.List | ast.Tuple, child: ast.expr) -> str | None:
    """Return the flag that precedes the list item, as in `["--mixed_precision", "bf16"]`, or None."""
    index = display.elts.index(child)
    flag = constant_of(display.elts[index - 1]) if index else None
    return _if_called(called, flag) if isinstance(flag, str) and flag.startswith("--") else None
