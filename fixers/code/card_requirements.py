"""Report code that stops a program on cards without bfloat16: assertions, and branches that raise or exit."""

from __future__ import annotations

import ast

from fixers.code.draft import Draft
from fixers.sources.expressions import tail_of
from fixers.sources.gates import is_gated
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import PythonSource
from remote.policy.precision import BF16_FROM

PROBES = frozenset({"is_bf16_supported", "is_torch_bf16_gpu_available", "is_torch_bf16_available", "is_bf16_available"})
ASSERTS = "this assertion requires "
REQUIRES = ASSERTS + "compute capability {needed} and fails on this card; float16 and SDPA do not need it"
REQUIRES_BF16 = ASSERTS + "bfloat16, which this card only emulates; float16 does not need it"
STOPS = "this stops the program on a card without bfloat16, so the code after it keeps bfloat16"
CAPABILITY = "torch.cuda.get_device_capability"
EXITS = ("exit", "_exit", "abort")


def report_assertions(draft: Draft) -> None:
    """Report each assertion of bfloat16, or of a compute capability from 8.0, which this card does not have."""
    source = draft.source
    for each in source.names.of_type(ast.Assert):
        if is_gated(source, each):
            continue
        if needed := _needed(source, each.test):
            draft.warn(each, REQUIRES.format(needed=f"{needed}.0"), hint="remove the assertion, or do not run its cell")
        elif requires_bf16(source, each):
            draft.warn(each, REQUIRES_BF16, hint="remove the assertion")


def report_exits(draft: Draft) -> None:
    """Report each branch that stops the program on this card, if code that names bfloat16 follows in its block."""
    for each in draft.source.names.of_type(ast.If):
        if stops_without_bf16(draft.source, each) and _names_bf16_after(draft.source, each):
            draft.warn(each, STOPS, hint="remove the check")


def requires_bf16(source: PythonSource, statement: ast.stmt) -> bool:
    """Return True for `assert torch.cuda.is_bf16_supported()`, also with other conditions that must hold."""
    if not isinstance(statement, ast.Assert):
        return False
    test = statement.test
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return any(_is_probe(each) for each in parts)


def stops_without_bf16(source: PythonSource, branch: ast.stmt) -> bool:
    """Return True for `if not torch.cuda.is_bf16_supported(): raise`, and for a test of the compute capability."""
    if not isinstance(branch, ast.If) or not _leaves_program(branch.body[-1]):
        return False
    test = branch.test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_probe(test.operand) or bool(_needed(source, test.operand))
    return bool(_least(source, test, (ast.Lt,), (ast.LtE,)))


def _is_probe(test: ast.expr) -> bool:
    return isinstance(test, ast.Call) and tail_of(test) in PROBES and not test.args and not test.keywords


def _leaves_program(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Raise):
        return True
    return (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and tail_of(statement.value) in EXITS
    )


def _needed(source: PythonSource, test: ast.expr) -> int:
    """Return the first number of the capability that `get_device_capability() >= (8, 0)` requires, or 0."""
    return _least(source, test, (ast.GtE,), (ast.Gt,))


def _least(
    source: PythonSource, test: ast.expr, same: tuple[type[ast.cmpop], ...], above: tuple[type[ast.cmpop], ...]
) -> int:
    """Return the first number of the lowest capability with which the test is true, if it is 8 or larger, otherwise 0.

    With an operator in `same`, this number is the one in the test; with an operator in `above`, it is one larger.
    """
    match test:
        case ast.Compare(left=left, ops=[op], comparators=[ast.Tuple(elts=[ast.Constant(value=int(major)), *_])]):
            pass
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int(major))]):
            pass
        case _:
            return 0
    if not isinstance(op, (*same, *above)) or not _is_capability(source, left):
        return 0
    least = major + isinstance(op, above)
    return least if least >= BF16_FROM[0] else 0


def _is_capability(source: PythonSource, value: ast.expr) -> bool:
    """Return True for a call of `get_device_capability()`, its first item, and a name for its first item."""
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant) and value.slice.value == 0:
        value = value.value
    if isinstance(value, ast.Call):
        return source.names.meaning(value.func) == CAPABILITY
    return isinstance(value, ast.Name) and value.id in source.remember("majors", lambda: _majors(source))


def _majors(source: PythonSource) -> frozenset[str]:
    """Return the names to which the file assigns the capability or its first number."""
    found: set[str] = set()
    for each in source.names.of_type(ast.Assign):
        if _is_capability_call(source, each.value):
            first = [target.elts[0] if isinstance(target, ast.Tuple) else target for target in each.targets]
            found |= {target.id for target in first if isinstance(target, ast.Name)}
    return frozenset(found)


def _is_capability_call(source: PythonSource, value: ast.expr) -> bool:
    inner = value.value if isinstance(value, ast.Subscript) else value
    return isinstance(inner, ast.Call) and source.names.meaning(inner.func) == CAPABILITY


def _names_bf16_after(source: PythonSource, branch: ast.If) -> bool:
    """Return True if the function or module of the branch names bfloat16 after it."""
    block = next((each for each in source.names.ancestors(branch) if isinstance(each, FUNCTIONS)), source.tree)
    statements = getattr(block, "body", [])
    after = (each for each in statements if isinstance(each, ast.stmt) and each.lineno > (branch.end_lineno or 0))
    return any("bf16" in text or "bfloat16" in text for text in map(source.segment, after))
