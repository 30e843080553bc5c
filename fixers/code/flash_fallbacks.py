"""Edit dtypes that depend on FlashAttention: `bfloat16 if use_flash_attention else float32`."""

from __future__ import annotations

import ast
import re
from typing import TypeVar

from fixers.code.draft import Draft
from fixers.sources.chosen_words import rewritten_literal
from fixers.sources.gates import is_gated
from fixers.sources.lines import in_order, lines_with
from fixers.sources.python import PythonSource

FALLS_BACK = (re.compile(rb"if[ (]"), re.compile(rb"flash_?att"), re.compile(rb"\belse\b|:[ ]*(?:#.*)?$"))
"""Matches the parts of a line, in this order."""
NAMES_FLASH = re.compile(r"(?:not\s+)?(?:[\w.]+\.)?(?:use_)?flash_?att(?:entio)?n\w*", re.IGNORECASE)
MIXES = re.compile(rb"\b(?:fp16|bf16)\b|GradScaler|mixed_precision|autocast")
HALVES = ("torch.bfloat16", "torch.float16", "torch.half")
FLOATS = ("torch.float32", "torch.float")
T = TypeVar("T")
HALF_WORDS = ("bfloat16", "float16", "bf16", "fp16")
COUNTERPARTS = {"float32": "float16", "fp32": "fp16"}
WHY = "the dtype must not depend on FlashAttention: float32 doubles the memory"


def may_fall_back(text: bytes) -> bool:
    """Return True if the text has a conditional expression or a branch on FlashAttention."""
    return in_order(lines_with(text.lower(), (b"flash",)), *FALLS_BACK)


def keep_half(draft: Draft) -> None:
    """Select float16 instead of float32 where the code selects float32 only because FlashAttention is off."""
    if not may_fall_back(draft.source.text):
        return
    for choice in draft.source.names.of_type(ast.IfExp):
        if selects_flash_in_mixed_training(draft.source, choice.test):
            off, on = _sides(choice.test, choice.orelse, choice.body)
            _replace(draft, off, on)
    for branch in draft.source.names.of_type(ast.If):
        if branch.orelse and selects_flash_in_mixed_training(draft.source, branch.test):
            _judge_branch(draft, branch)


def selects_flash_in_mixed_training(source: PythonSource, test: ast.expr) -> bool:
    """Return True for a test of a FlashAttention switch, or its negation, in a file that trains in mixed precision."""
    return NAMES_FLASH.fullmatch(source.segment(test)) is not None and MIXES.search(source.text) is not None


def _sides(test: ast.expr, orelse: T, body: T) -> tuple[T, T]:
    """Return the value selected without FlashAttention, and the value selected with it."""
    return (body, orelse) if isinstance(test, ast.UnaryOp) else (orelse, body)


def _judge_branch(draft: Draft, branch: ast.If) -> None:
    """Judge assignments of a dtype to the same name in both branches."""
    off, on = _sides(branch.test, branch.orelse, branch.body)
    selected = {draft.source.segment(each.targets[0]): each.value for each in on if isinstance(each, ast.Assign)}
    for each in off:
        if isinstance(each, ast.Assign):
            other = selected.get(draft.source.segment(each.targets[0]))
            if other is not None:
                _replace(draft, each.value, other)


def _replace(draft: Draft, off: ast.expr, on: ast.expr) -> None:
    source = draft.source
    if is_gated(source, off):
        return
    match off, on:
        case ast.Attribute(), _ if source.names.meaning(off) in FLOATS and source.names.meaning(on) in HALVES:
            draft.edits.append(source.replace_attribute(off, "float16", WHY))
        case ast.Constant(value=str(word)), ast.Constant(value=other) if word in COUNTERPARTS and other in HALF_WORDS:
            literal = rewritten_literal(source, off, COUNTERPARTS[word])
            if literal is not None:
                draft.replace(off, literal, WHY)
