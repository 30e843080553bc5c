"""Report calls of FlashAttention kernels, and assertions that the card can run them."""

from __future__ import annotations

import ast

from fixers.code.draft import Draft
from fixers.sources.attention_choice import is_named_flash
from fixers.sources.expressions import tail_of
from fixers.sources.gates import is_gated
from fixers.sources.names import Rebound
from fixers.sources.python import PythonSource
from remote.policy.precision import BF16_FROM
from remote.protocol.findings import Finding

CALLS_KERNEL = "this calls {kernel}, which does not run on this card"
REQUIRES = "this assertion requires compute capability {needed} and fails on this card; SDPA does not need it"


def report_assertion(draft: Draft) -> None:
    """Report each assertion of the compute capability that a card without FlashAttention does not have."""
    for each in draft.source.names.of_type(ast.Assert):
        if (needed := _needed(draft.source, each.test)) and not is_gated(draft.source, each):
            draft.warn(each, REQUIRES.format(needed=needed), hint="remove the assertion, or do not run its cell")


def _needed(source: PythonSource, test: ast.expr) -> str:
    """Return the compute capability of `get_device_capability() >= (8, 0)`, or of its first number, or ""."""
    match test:
        case ast.Compare(left=ast.Subscript(value=call, slice=ast.Constant(value=0)), ops=[op], comparators=[number]):
            pass
        case ast.Compare(left=call, ops=[op], comparators=[ast.Tuple(elts=[number, *_])]):
            pass
        case _:
            return ""
    if not isinstance(call, ast.Call) or source.names.meaning(call.func) != "torch.cuda.get_device_capability":
        return ""
    major = number.value if isinstance(number, ast.Constant) else None
    least = major + isinstance(op, ast.Gt) if isinstance(major, int) and isinstance(op, (ast.Gt, ast.GtE)) else 0
    return f"{least}.0" if least >= BF16_FROM[0] else ""


def report_kernel(draft: Draft) -> None:
    """Report the first call of a FlashAttention kernel that the program may reach on this card."""
    calls = draft.source.names.of_type(ast.Call)
    kernels = (call for call in calls if tail_of(call).startswith("flash_attn_") and _is_of_kernel(draft.source, call))
    reached = (each for each in kernels if not is_gated(draft.source, each) and not is_named_flash(draft.source, each))
    call = next(reached, None)
    if call is not None:
        hint = "torch.nn.functional.scaled_dot_product_attention"
        draft.warn(call, CALLS_KERNEL.format(kernel=tail_of(call)), hint=hint)


def calls_kernel(finding: Finding) -> bool:
    """Return True if the finding reports the call of a kernel."""
    before, after = CALLS_KERNEL.split("{kernel}")
    return finding.message.startswith(before) and finding.message.endswith(after)


def _is_of_kernel(source: PythonSource, call: ast.Call) -> bool:
    found = source.names.look_up(call.func)
    meaning = found.qualified if isinstance(found, Rebound) else found
    return (meaning or "").startswith("flash_attn")
