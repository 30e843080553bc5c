"""Read and replace the value of a precision flag."""

from __future__ import annotations

import ast

from fixers.code.bf16_forms.chosen_branches import in_selected_branch
from fixers.code.draft import Draft
from fixers.frame.source_fixer import NO_BFLOAT16
from fixers.sources.gates import is_gated
from fixers.sources.python import PythonSource

OFF = (False, None)


def is_of_branch(source: PythonSource, node: ast.expr) -> bool:
    """Return True if a test of the card, or an option with a branch for float16, selects the code around the node."""
    return is_gated(source, node) or in_selected_branch(source, node)


def operand(source: PythonSource, value: ast.expr) -> str:
    """Return the text of the value, in parentheses if an `or` or a `not` beside it needs them."""
    written = source.segment(value)
    return written if isinstance(value, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else f"({written})"


def set_value(draft: Draft, value: ast.expr, written: str) -> None:
    """Replace the value of a flag."""
    draft.edits.append(draft.source.replace_node(value, written, NO_BFLOAT16))
