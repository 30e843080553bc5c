"""Report calls of FlashAttention kernels."""

from __future__ import annotations

import ast

from fixers.code.draft import Draft
from fixers.sources.attention_choice import is_named_flash
from fixers.sources.expressions import tail_of
from fixers.sources.gates import is_gated
from fixers.sources.names import Rebound
from fixers.sources.python import PythonSource
from remote.protocol.findings import Finding

CALLS_KERNEL = "this calls {kernel}, which does not run on this card"


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
