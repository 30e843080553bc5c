"""Find a project's alternatives to FlashAttention, and defaults that select FlashAttention."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.sources.chosen_words import constant_of
from fixers.sources.lines import holds, holds_any, line_spans, lines_with
from fixers.sources.python import PythonSource
from fixers.sources.splice import line_of

RUNS_ANYWHERE = ("eager", "sdpa")
NAMES_FLASH = re.compile(r"[Ff]lash|FLASH|FA[23](?![a-z])|\bfa[23]\b")
TESTS_PACKAGE = re.compile(r"available|installed|is not None|flash_attn_\w*func|^HAS_|_HAS_")
NO_SDPA = re.compile(rb"^[ \t]+_supports_sdpa[ \t]*=[ \t]*False\b", re.MULTILINE)
DECLARED = (b"_supports_flash_attn", b"_supports_flash_attn_2")
SUPPORTS = re.compile(rb"^[ \t]+_supports_flash_attn(?:_2)?[ \t]*=[ \t]*True\b", re.MULTILINE)
OF_MODELS = re.compile(rb"class[ ]+\w+\([^()]*\bPreTrainedModel\b[^()]*\)")
NEXT_STATEMENT = re.compile(rb"^[^\s#)\]}]", re.MULTILINE)
EAGER_CHOICE = re.compile(
    rb"config\.[\w.]*attn_implementation[ ]*=[ ]*[\"']flash_attention_2[\"'][ ]+if[ ][^\n]+[ ]else[ ]+[\"']eager"
)
OF_CLASS = re.compile(rb"flash_attention_2[\"'][ ]*:[ ]*[A-Za-z_]")
TABLE = re.compile(rb"^\w*(?:ATTN|ATTENTION)\w*[ \t]*=[ \t]*\{([^{}]*)\}", re.MULTILINE)


def lacks_sdpa(data: bytes) -> bool:
    """Return True for code without SDPA, where only eager attention can replace FlashAttention.

    Such code sets `_supports_sdpa = False`, has a class of models that supports FlashAttention and does not mention
    SDPA, has a table of attention classes without SDPA, or sets a config to FlashAttention or eager attention.
    """
    if holds(data, b"_supports_sdpa") and NO_SDPA.search(data):
        return True
    if holds_any(data, DECLARED) and any(map(_is_without_sdpa, _declaring_classes(data))):
        return True
    if not holds(data, b"flash_attention_2"):
        return False
    if EAGER_CHOICE.search(lines_with(data, (b"flash_attention_2",))):
        return True
    return any(b"eager" in each and b"sdpa" not in each for _, each in _flash_tables(data))


def line_of_flash_table(data: bytes) -> int:
    """Return the line of a table of attention classes without SDPA and without eager attention, or 0."""
    if not holds(data, b"flash_attention_2"):
        return 0
    tables = _flash_tables(data)
    only = (at for at, each in tables if OF_CLASS.search(each) and b"eager" not in each and b"sdpa" not in each)
    return next((line_of(data, at) for at in only), 0)


def _flash_tables(data: bytes) -> list[tuple[int, bytes]]:
    """Return the offset and the rows of each table with FlashAttention."""
    tables = (TABLE.match(data, start) for start, _ in line_spans(data, (b"ATTN", b"ATTENTION")))
    return [(found.start(), found[1]) for found in tables if found and b"flash_attention_2" in found[1]]


def _declaring_classes(data: bytes) -> Iterator[bytes]:
    """Yield the source of each class that declares support of FlashAttention."""
    for start, _ in line_spans(data, DECLARED):
        first = data.rfind(b"\nclass ", 0, start) + 1
        last = NEXT_STATEMENT.search(data, start)
        yield data[first : last.start() if last else len(data)]


def _is_without_sdpa(model: bytes) -> bool:
    """Return True for a class that inherits support of SDPA from no other model, and does not mention it."""
    return OF_MODELS.match(model) is not None and b"_supports_sdpa" not in model and SUPPORTS.search(model) is not None


def alternative_of(source: PythonSource, node: ast.expr) -> str | None:
    """Return the other attention of a conditional expression ("eager" in `node if x else "eager"`), or None."""
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
