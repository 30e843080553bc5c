"""String values in Python that select an option: by keyword, key, name, default, fallback or flag."""

from __future__ import annotations

import ast
import re

from fixers.sources.python import PythonSource

DEFAULTS = ("default", "const", "default_value", "value", "default_factory")
LITERAL = re.compile(r"([rRuU]?)(\"\"\"|'''|\"|')(.*)\2", re.DOTALL)


def constant_of(node: ast.AST | None) -> object:
    """Return the value of a literal; `...` for any other node."""
    return node.value if isinstance(node, ast.Constant) else ...


def rewritten_literal(source: PythonSource, node: ast.Constant, word: str) -> str | None:
    """Return the literal with another value in the same quotes; None for concatenated or escaped literals."""
    literal = LITERAL.fullmatch(source.segment(node))
    if literal is None or literal[3] != node.value:
        return None
    prefix, quote, _ = literal.groups()
    return f"{prefix}{quote}{word}{quote}"


def is_chosen(source: PythonSource, node: ast.expr, called: re.Pattern[str]) -> bool:
    """Return True if the value, or a conditional expression around it, is given to a name that matches `called`."""
    child = _whole_choice(source, node)
    above = source.names.parent(child)
    match above:
        case ast.keyword(arg=str(name)):
            return _is_called(called, name) or (name in DEFAULTS and _is_default_of(source, called, above))
        case ast.Dict():
            key = above.keys[above.values.index(child)] if child in above.values else None
            return _is_called(called, constant_of(key))
        case ast.Assign():
            return any(_names(called, target) for target in above.targets)
        case ast.AnnAssign():
            return child is above.value and _names(called, above.target)
        case ast.arguments():
            return _is_default_argument(called, above, child)
        case ast.Call():
            return _is_fallback(source, called, above, child)
        case ast.List() | ast.Tuple():
            return _follows_flag(called, above, child)
    return False


def _whole_choice(source: PythonSource, node: ast.expr) -> ast.expr:
    """Return the outermost `a if x else b` or `a or b` that has the node as one of its results."""
    above = source.names.parent(node)
    while isinstance(above, (ast.IfExp, ast.BoolOp)) and not (isinstance(above, ast.IfExp) and node is above.test):
        node, above = above, source.names.parent(above)
    return node


def _is_called(called: re.Pattern[str], name: object) -> bool:
    return isinstance(name, str) and called.match(name.lstrip("-")) is not None


def _names(called: re.Pattern[str], target: ast.expr) -> bool:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _is_called(called, name)
        case ast.Subscript(slice=ast.Constant(value=name)):
            return _is_called(called, name)
    return False


def _is_default_of(source: PythonSource, called: re.Pattern[str], keyword: ast.keyword) -> bool:
    """Return True for `add_argument("--dtype", default=...)` and `dtype: str = field(default=...)`."""
    call = source.names.parent(keyword)
    if not isinstance(call, ast.Call):
        return False
    if any(_is_called(called, constant_of(each)) for each in call.args):
        return True
    holder = source.names.parent(call)
    if isinstance(holder, ast.AnnAssign):
        return _names(called, holder.target)
    return isinstance(holder, ast.Assign) and any(_names(called, target) for target in holder.targets)


def _is_default_argument(called: re.Pattern[str], arguments: ast.arguments, child: ast.expr) -> bool:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return any(default is child and _is_called(called, argument.arg) for argument, default in pairs)


def _is_fallback(source: PythonSource, called: re.Pattern[str], call: ast.Call, child: ast.expr) -> bool:
    """Return True for the argument that follows a matching name, as in `config.get("dtype", "bfloat16")`.

    Also for `getattr(torch, "bfloat16")` and for any argument of a matching `typer.Option` or `typer.Argument`.
    """
    if child not in call.args:
        return False
    before = call.args[: call.args.index(child)]
    if len(before) == 1 and source.names.meaning(before[0]) == "torch":
        return isinstance(call.func, ast.Name) and call.func.id == "getattr"
    if source.names.meaning(call.func) in ("typer.Option", "typer.Argument"):
        return any(_is_called(called, constant_of(each)) for each in call.args)
    return bool(before) and _is_called(called, constant_of(before[-1]))


def _follows_flag(called: re.Pattern[str], display: ast.List | ast.Tuple, child: ast.expr) -> bool:
    """Return True if the item follows a matching flag: `["accelerate", "launch", "--mixed_precision", "bf16"]`."""
    index = display.elts.index(child)
    flag = constant_of(display.elts[index - 1]) if index else None
    return isinstance(flag, str) and flag.startswith("--") and _is_called(called, flag)
