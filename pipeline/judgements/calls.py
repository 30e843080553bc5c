"""One Python file as its calls: what was passed, and where weights become half or a scaler is made. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

HALF_NAMES = ("float16", "half")


@dataclass(frozen=True)
class Module:
    """One parsed Python file and the calls in it."""

    path: str
    tree: ast.Module
    calls: tuple[ast.Call, ...]

    @property
    def called(self) -> set[str]:
        """The last names of everything that is called."""
        return {last_name(call.func) for call in self.calls}


def parse_module(path: str, source: bytes) -> Module | None:
    """None where the file does not parse, which the fixers tell, or has nothing to do with torch."""
    if b"torch" not in source and b"transformers" not in source:
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    return Module(path, tree, tuple(node for node in ast.walk(tree) if isinstance(node, ast.Call)))


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    """What is passed under that keyword."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def entry_of(node: ast.AST, name: str) -> ast.expr | None:
    """The value of that key in a dict display."""
    if not isinstance(node, ast.Dict):
        return None
    pairs = zip(node.keys, node.values, strict=True)
    return next((value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name), None)


def last_name(function: ast.expr) -> str:
    """The last part of what is called."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def makes_scaler(call: ast.Call) -> bool:
    """It makes a gradient scaler that is not switched off."""
    return last_name(call.func) == "GradScaler" and not is_literal(keyword_of(call, "enabled"), False)


def is_literal(node: ast.expr | None, value: bool | None) -> TypeGuard[ast.Constant]:
    """It is written there as that very literal: True, False or None."""
    return isinstance(node, ast.Constant) and node.value is value


def is_accelerators(call: ast.Call) -> bool:
    """accelerator.clip_grad_norm_ unscales first."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and "accelerator" in owner.id.lower()


def halves(module: Module) -> Iterator[ast.expr]:
    """Places where weights become float16: `.half()`, `.to(torch.float16)`, `dtype=torch.float16`."""
    for call in module.calls:
        if last_name(call.func) == "half" and isinstance(call.func, ast.Attribute) and not call.args:
            yield call
        name = last_name(call.func)
        given = [] if name == "autocast" else [keyword_of(call, "dtype"), keyword_of(call, "torch_dtype")]
        for value in [*given, *(call.args if name == "to" else [])]:
            if isinstance(value, ast.Attribute) and value.attr in HALF_NAMES:
                yield value


def widens(tree: ast.AST) -> bool:
    """Something in it becomes float32."""
    called = (last_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return "float" in called or any(isinstance(n, ast.Attribute) and n.attr == "float32" for n in ast.walk(tree))


def loads_half(module: Module) -> bool:
    """Some weights of the file become float16."""
    return next(halves(module), None) is not None
