"""Analyse the calls in a Python file: arguments, casts to float16, gradient scalers. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from fixers.sources.syntax import parse_python
from remote.protocol.dataclass import dataclass

HALF_NAMES = ("float16", "half")


@dataclass(frozen=True)
class Module:
    """A parsed Python file and its calls."""

    path: str
    tree: ast.Module
    calls: tuple[ast.Call, ...]

    @property
    def called(self) -> set[str]:
        """The names of all called functions, without the module or object: `step` for `scaler.step`."""
        return {last_name(call.func) for call in self.calls}


def parse_module(path: str, source: bytes) -> Module | None:
    """Parse a file.

    Return None if the file does not contain "torch" or "transformers", or is not valid Python. Parse errors are
    reported by the fixers.
    """
    if b"torch" not in source and b"transformers" not in source:
        return None
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError):
        return None
    return Module(path, tree, tuple(node for node in ast.walk(tree) if isinstance(node, ast.Call)))


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of the keyword argument `name`, or None if the call has no such argument."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def entry_of(node: ast.AST, name: str) -> ast.expr | None:
    """Return the value of the key `name`, or None if `node` is not a dict literal or has no such key."""
    if not isinstance(node, ast.Dict):
        return None
    pairs = zip(node.keys, node.values, strict=True)
    return next((value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name), None)


def last_name(function: ast.expr) -> str:
    """Return the name of a called function without the module or object: `step` for `scaler.step`."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def creates_scaler(call: ast.Call) -> bool:
    """Return True if the call creates an enabled gradient scaler."""
    return last_name(call.func) == "GradScaler" and not is_literal(keyword_of(call, "enabled"), False)


def is_literal(node: ast.expr | None, value: bool | None) -> TypeGuard[ast.Constant]:
    """Return True if the expression is the literal `value`."""
    return isinstance(node, ast.Constant) and node.value is value


def is_accelerator_method(call: ast.Call) -> bool:
    """Return True for a method of an Accelerator.

    For example, `accelerator.clip_grad_norm_` unscales the gradients itself.
    """
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and "accelerator" in owner.id.lower()


def float16_casts(module: Module) -> Iterator[ast.expr]:
    """Yield the expressions that cast weights to float16: `.half()`, `.to(torch.float16)`, `dtype=torch.float16`."""
    for call in module.calls:
        if last_name(call.func) == "half" and isinstance(call.func, ast.Attribute) and not call.args:
            yield call
        name = last_name(call.func)
        given = [] if name == "autocast" else [keyword_of(call, "dtype"), keyword_of(call, "torch_dtype")]
        for value in [*given, *(call.args if name == "to" else [])]:
            if isinstance(value, ast.Attribute) and value.attr in HALF_NAMES:
                yield value


def casts_to_float32(tree: ast.AST) -> bool:
    """Return True if the code contains a cast to float32."""
    called = (last_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return "float" in called or any(isinstance(n, ast.Attribute) and n.attr == "float32" for n in ast.walk(tree))


def casts_to_float16(module: Module) -> bool:
    """Return True if the file casts weights to float16."""
    return next(float16_casts(module), None) is not None
