"""Find code that runs only if an option selects bfloat16, beside a branch for float16 in the same file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.code.bf16_forms.branches import is_selected_branch
from fixers.sources.expressions import written
from fixers.sources.python import PythonSource

TWINS = (("fp16", "bf16"), ("float16", "bfloat16"), ("half", "bfloat16"), ("half", "bf16"))


def in_selected_branch(source: PythonSource, node: ast.AST) -> bool:
    """Return True if a branch around the node runs only for bfloat16, and another branch selects float16."""
    child = node
    for above in source.names.ancestors(node):
        if isinstance(above, ast.If) and is_selected_branch(source, above, child):
            return True
        child = above
    return False


def is_rest_of_pair(source: PythonSource, branch: ast.If, child: ast.AST) -> bool:
    """Return True for the `else` of `if fp16:` in a branch that runs only if `fp16 or bf16` is true.

    The condition of that branch may also be a variable with this value.
    """
    if child not in branch.orelse or not isinstance(branch.test, (ast.Name, ast.Attribute)):
        return False
    flag = written(source, branch.test)
    pairs = [{flag, flag.replace(half, other)} for half, other in TWINS if half in flag]
    tests = (each.test for each in _branches_around(source, branch))
    return any(pair <= either for test in tests for either in _alternatives(source, test) for pair in pairs)


def _branches_around(source: PythonSource, node: ast.AST) -> Iterator[ast.If]:
    """Yield each `if` whose body contains the node."""
    for above in source.names.ancestors(node):
        if isinstance(above, ast.If) and node in above.body:
            yield above
        node = above


def _alternatives(source: PythonSource, test: ast.expr) -> Iterator[set[str]]:
    """For each `or` that must be true for the test to be true, yield its operands.

    The `or` is in the test itself, or is assigned to a name in the test.
    """
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            for each in values:
                yield from _alternatives(source, each)
        case ast.BoolOp(op=ast.Or(), values=values):
            yield {written(source, each) for each in values}
        case ast.Name() | ast.Attribute():
            for value in _assigned(source, written(source, test)):
                yield from _alternatives(source, value)


def _assigned(source: PythonSource, name: str) -> Iterator[ast.BoolOp]:
    """Yield each `a or b` that the file assigns to the name."""
    for each in source.names.of_type(ast.Assign):
        is_or = isinstance(each.value, ast.BoolOp) and isinstance(each.value.op, ast.Or)
        if is_or and any(written(source, target) == name for target in each.targets):
            assert isinstance(each.value, ast.BoolOp)
            yield each.value
