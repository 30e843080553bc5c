"""Find a project's alternatives to FlashAttention, and defaults that select FlashAttention."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import tail_of
from fixers.sources.lines import holds, line_spans
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import PythonSource

RUNS_ANYWHERE = ("eager", "sdpa")
NAMES_FLASH = re.compile(r"[Ff]lash|FLASH|FA[23](?![a-z])|\bfa[23]\b")
TESTS_PACKAGE = re.compile(r"available|installed|is not None|flash_attn_\w*func|^HAS_|_HAS_")
NO_SDPA = re.compile(rb"^[ \t]+_supports_sdpa[ \t]*=[ \t]*False\b", re.MULTILINE)
TABLE = re.compile(rb"^\w*(?:ATTN|ATTENTION)\w*[ \t]*=[ \t]*\{([^{}]*)\}", re.MULTILINE)


def lacks_sdpa(data: bytes) -> bool:
    """Return True for models without SDPA: a class has `_supports_sdpa = False`, or the attention table lacks it."""
    if holds(data, b"_supports_sdpa") and NO_SDPA.search(data):
        return True
    if not holds(data, b"flash_attention_2"):
        return False
    tables = (TABLE.match(data, start) for start, _ in line_spans(data, (b"ATTN", b"ATTENTION")))
    listed = [found[1] for found in tables if found]
    return any(b"flash_attention_2" in each and b"eager" in each and b"sdpa" not in each for each in listed)


def alternative_of(source: PythonSource, node: ast.expr) -> str | None:
    """Return the other attention of a conditional expression: "eager" in `"flash_attention_2" if x else "eager"`."""
    match source.names.parent(node):
        case ast.IfExp(body=one, orelse=other):
            word = constant_of(other if one is node else one)
            return word if isinstance(word, str) and word in RUNS_ANYWHERE else None
    return None


def is_named_flash(source: PythonSource, node: ast.AST) -> bool:
    """Return True if the node is in a function, class or branch that is named after FlashAttention.

    Such code runs only if other code selects FlashAttention.

    A branch that only tests whether FlashAttention is installed does not count.
    """
    child = node
    for above in source.names.ancestors(node):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and NAMES_FLASH.search(above.name):
            return True
        if isinstance(above, ast.If) and child in above.body and _is_switch(source.segment(above.test)):
            return True
        child = above
    return False


def _is_switch(test: str) -> bool:
    return NAMES_FLASH.search(test) is not None and not TESTS_PACKAGE.search(test)


def is_unused_default(source: PythonSource, node: ast.expr) -> bool:
    """Return True for the default of an argument to which every call in this file gives a value.

    Calls inside the function itself are ignored. The fixer does not change this default, because callers in other files
    may rely on other effects of the FlashAttention branch.
    """
    arguments = source.names.parent(node)
    function = source.names.parent(arguments) if isinstance(arguments, ast.arguments) else None
    if not isinstance(arguments, ast.arguments) or not isinstance(function, FUNCTIONS):
        return False
    at = _position_of(arguments, node)
    calls = _calls_of(source, function)
    return not any(_leaves_out(call, *at) for call in calls if function not in source.names.ancestors(call))


def _position_of(arguments: ast.arguments, default: ast.expr) -> tuple[str, int]:
    """Return the name and the position of the argument with this default.

    A keyword-only argument has the position 1000.
    """
    positional = [*arguments.posonlyargs, *arguments.args]
    if default in arguments.defaults:
        at = len(positional) - len(arguments.defaults) + arguments.defaults.index(default)
        bound = positional[0].arg in ("self", "cls")
        return positional[at].arg, at - bound
    return arguments.kwonlyargs[arguments.kw_defaults.index(default)].arg, 1000


def _calls_of(source: PythonSource, function: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of the function. For an `__init__`, yield the calls of the class."""
    called, above = getattr(function, "name", ""), source.names.parent(function)
    if called == "__init__" and isinstance(above, ast.ClassDef):
        called = above.name
    yield from (call for call in source.names.of_type(ast.Call) if called and tail_of(call) == called)


def _leaves_out(call: ast.Call, name: str, at: int) -> bool:
    """Return True if the call does not pass the argument.

    An unpacked argument (`*args`, `**kwargs`) counts as passing it.
    """
    unpacked = any(each.arg is None for each in call.keywords) or any(
        isinstance(each, ast.Starred) for each in call.args
    )
    return not unpacked and len(call.args) <= at and all(each.arg != name for each in call.keywords)
