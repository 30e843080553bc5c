"""bf16-probe: checks for bfloat16 support test the card's compute capability.

What it does
    On a card below compute capability 8.0, replaces `torch.cuda.is_bf16_supported()`, and the checks of transformers
    and accelerate that use it, with a test of the compute capability. Calls that already exclude emulation are not
    changed, and neither are checks that only print advice, or that select an autocast for code without gradients.

    Reports assertions of bfloat16 or of compute capability 8.0, and branches that stop the program on other cards
    (`if not torch.cuda.is_bf16_supported(): raise`), and does not change them.

Why
    Since torch 2.4 these checks return True on Volta and Turing, where bfloat16 is only emulated, so that
    `bfloat16 if supported else float16` takes the wrong branch.

Before
    use_bf16 = torch.cuda.is_bf16_supported()

After
    use_bf16 = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)

What it can break
    Nothing known. The new test uses the current device, as the original check did.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast

from fixers.code.card_requirements import (
    PROBES,
    report_assertions,
    report_exits,
    requires_bf16,
    stops_without_bf16,
)
from fixers.code.draft import Draft
from fixers.frame.source_fixer import Rewrite
from fixers.frame.target import Target
from fixers.sources.autocast_blocks import is_evaluated
from fixers.sources.expressions import tail_of
from fixers.sources.gates import CAPABLE
from fixers.sources.imports import name_of
from fixers.sources.python import PythonSource, reads_python
from fixers.sources.source import Source
from remote.policy.precision import BF16_FROM

name = "bf16-probe"
safety = "safe"
needles = (b"is_bf16_supported", b"is_torch_bf16", b"is_bf16_available", b"get_device_capability")
below = BF16_FROM
requires: tuple[str, ...] = ()
matches = reads_python

LIBRARIES = ("torch.cuda.", "transformers.", "accelerate.")
WHY = "torch returns True for emulated bfloat16"
TAKES_BARE_TEST = (ast.Assign, ast.AnnAssign, ast.keyword, ast.Return, ast.If, ast.While, ast.Expr)


def rewrite(source: Source, target: Target) -> Rewrite:
    """Replace checks for bfloat16 support with a test of the compute capability."""
    draft = Draft(source.python, name)
    report_assertions(draft)
    report_exits(draft)
    for node in draft.source.names.nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            meaning = draft.source.names.meaning(node) or ""
            if meaning.startswith(LIBRARIES) and meaning.rpartition(".")[2] in PROBES:
                _judge_probe(draft, node)
    return draft.rewrite


def _judge_probe(draft: Draft, node: ast.Name | ast.Attribute) -> None:
    source = draft.source
    call = source.names.parent(node)
    if not isinstance(call, ast.Call) or call.func is not node:
        draft.warn(
            node, f"{source.segment(node)} returns True for emulated bfloat16, and this line uses it without calling it"
        )
        return
    if call.args or call.keywords or _only_prints(source, call) or _only_evaluates(source, call):
        return
    if requires_bf16(source, source.names.statement(call)) or stops_without_bf16(source, source.names.statement(call)):
        return
    cuda = _cuda(draft, node)
    if cuda is None:
        draft.warn(
            node,
            "this check returns True for emulated bfloat16, and this file does not import torch",
            hint=f"torch.cuda{CAPABLE}",
        )
        return
    draft.edits.append(source.replace_node(call, _test(draft, call, cuda), WHY))


def _only_prints(source: PythonSource, call: ast.Call) -> bool:
    """Return True for a probe in the condition of an `if` that only prints advice."""
    statement = source.names.statement(call)
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    return all(isinstance(each, ast.Expr) and _prints(each) for each in statement.body)


def _only_evaluates(source: PythonSource, call: ast.Call) -> bool:
    """Return True for a probe that selects an autocast which the file uses only without gradients."""
    statement = source.names.statement(call)
    if not isinstance(statement, ast.If):
        return False
    body = [each for each in statement.body if isinstance(each, ast.Assign) and "autocast" in source.segment(each)]
    names = {target.id for each in body for target in each.targets if isinstance(target, ast.Name)}
    loads = [each for each in source.names.of_type(ast.Name) if isinstance(each.ctx, ast.Load) and each.id in names]
    return len(body) == len(statement.body) and bool(loads) and all(is_evaluated(source, each) for each in loads)


def _prints(statement: ast.Expr) -> bool:
    """Return True for a call that prints or logs."""
    return isinstance(statement.value, ast.Call) and tail_of(statement.value) in ("print", "info", "warning")


def _cuda(draft: Draft, node: ast.Name | ast.Attribute) -> str | None:
    """Return the name by which this file refers to `torch.cuda`, or None."""
    if isinstance(node, ast.Attribute) and draft.source.names.meaning(node.value) == "torch.cuda":
        return draft.source.segment(node.value)
    torch = name_of(draft.source, "torch")
    return f"{torch}.cuda" if torch is not None else None


def _test(draft: Draft, call: ast.Call, cuda: str) -> str:
    capable = f"{cuda}{CAPABLE}"
    above = draft.source.names.parent(call)
    if isinstance(above, ast.BoolOp) and isinstance(above.op, ast.And):
        available = f"{cuda}.is_available()"
        before = above.values[: above.values.index(call)]
        if any(draft.source.segment(value) == available for value in before):
            return capable
        return f"{available} and {capable}"
    test = f"{cuda}.is_available() and {capable}"
    if isinstance(above, TAKES_BARE_TEST) or (isinstance(above, ast.IfExp) and above.test is call):
        return test
    return f"({test})"
