"""A host's answers are decoded to typed values: no code indexes the raw JSON, where a missing field would crash."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.contracts.project_modules import Module, modules

CALLS = {"ask", "act", "send", "fetch"}
BOUNDARY = ("remote.link.", "remote.payload.")


def is_call_of_a_host(node: ast.AST) -> bool:
    """Return True for `host.ask("OPERATION", ...)` and the like. An operation's name has a dot, or is `survey`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS):
        return False
    first = node.args[0] if node.args else None
    return isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.replace(".", "").isalpha()


def names_of_answers(function: ast.AST) -> Iterator[str]:
    """Yield the variables of a function that contain an answer before it is decoded."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and is_call_of_a_host(node.value) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id


def raw_reads(module: Module) -> Iterator[int]:
    """Yield the lines that read a part of an answer before it is decoded."""
    for function in ast.walk(module.tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = set(names_of_answers(function))
        for node in ast.walk(function):
            value = node.value if isinstance(node, ast.Subscript | ast.Attribute) else None
            if isinstance(value, ast.Name) and value.id in names:
                yield node.lineno
            if value is not None and is_call_of_a_host(value):
                yield node.lineno


def test_no_code_reads_a_host_s_answer_before_it_is_decoded() -> None:
    laptop = [module for module in modules() if not module.name.startswith(BOUNDARY)]
    calls = [node for module in laptop for node in ast.walk(module.tree) if is_call_of_a_host(node)]
    assert len(calls) > 15
    assert [f"{module.where}:{line}" for module in laptop for line in raw_reads(module)] == []
