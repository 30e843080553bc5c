"""Recognise a plain training loop: one optimizer, `loss.backward()`, gradient clipping, `optimizer.step()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.sources.expressions import tail_of, written
from fixers.sources.passed_names import binding_scope, means_variable
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import block_of, consumers_of, function_of
from remote.protocol.dataclass import dataclass

CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grads_with_norm_"})
LARGE = 64
READS_GRADIENTS = frozenset(
    {"register_hook", "register_full_backward_hook", "register_post_accumulate_grad_hook", "get_total_norm"}
)


@dataclass(frozen=True)
class PlainLoop:
    """The optimizer's name and assignment, all backward and step calls, and the clipping statements before the
    steps.
    """

    optimizer: str
    made: ast.Assign
    backwards: tuple[ast.Call, ...]
    steps: tuple[ast.Call, ...]
    clips: tuple[ast.stmt, ...]


def plain_loop(source: PythonSource) -> PlainLoop | None:
    """Return the file's only training loop, or None if the file has no plain loop or other code uses gradients."""
    backwards = tuple(call for call in source.names.of_type(ast.Call) if tail_of(call) == "backward")
    made = _optimizer_assignment(source)
    if made is None or not backwards or _reads_gradients(source) or scaled_by_hand(source):
        return None
    optimizer = written(source, made.targets[0])
    steps = tuple(_steps(source, optimizer))
    clips = _clips(source, steps)
    calls = (*backwards, *steps)
    if not steps or clips is None or not all(_is_bare(source, call) for call in calls):
        return None
    if not all(_refers_to(source, call, made) for call in calls):
        return None
    return PlainLoop(optimizer, made, backwards, steps, clips)


def scaled_by_hand(source: PythonSource) -> bool:
    """Return True for `(loss * scale).backward()`: a loss multiplied by a large number or a variable named scale."""
    return any(
        isinstance(call.func, ast.Attribute) and tail_of(call) == "backward" and _is_scaled(source, call.func.value)
        for call in source.names.of_type(ast.Call)
    )


def _is_scaled(source: PythonSource, value: ast.expr) -> bool:
    if isinstance(value, ast.Name):
        assigned = [each.value for each in source.names.of_type(ast.Assign) if _assigns(each, value.id)]
        return any(_is_scaled(source, each) for each in assigned if isinstance(each, ast.BinOp))
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mult):
        return False
    return any(_is_scale(source, each) for each in (value.left, value.right))


def _assigns(assignment: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in assignment.targets)


def _is_scale(source: PythonSource, factor: ast.expr) -> bool:
    if isinstance(factor, ast.Constant):
        return isinstance(factor.value, (int, float)) and factor.value >= LARGE
    if isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Pow):
        return True
    return "scale" in written(source, factor).lower()


def _optimizer_assignment(source: PythonSource) -> ast.Assign | None:
    """Return the assignment of the file's only optimizer, or None if the file creates no optimizer or several."""
    made = {id(each.call): each for each in consumers_of(source) if not each.trainer}
    if len(made) != 1:
        return None
    (consumer,) = made.values()
    statement = consumer.statement
    if not isinstance(statement, ast.Assign) or statement.value is not consumer.call or len(statement.targets) != 1:
        return None
    name = written(source, statement.targets[0])
    assigned = [
        each
        for each in source.names.nodes
        if isinstance(each, (ast.Name, ast.Attribute))
        and isinstance(each.ctx, ast.Store)
        and written(source, each) == name
    ]
    return statement if name and len(assigned) == 1 else None


def _steps(source: PythonSource, optimizer: str) -> Iterator[ast.Call]:
    for call in source.names.of_type(ast.Call):
        match call.func:
            case ast.Attribute(attr="step", value=stepped) if written(source, stepped) == optimizer:
                yield call


def _is_bare(source: PythonSource, call: ast.Call) -> bool:
    """Return True for a call that is a statement: a `step` without a closure, or `backward` of a loss."""
    statement = source.names.statement(call)
    is_statement = isinstance(statement, ast.Expr) and statement.value is call
    return is_statement and not call.args and isinstance(call.func, ast.Attribute)


def _refers_to(source: PythonSource, call: ast.Call, made: ast.Assign) -> bool:
    """Return True if the optimizer's name refers to this assignment at the call."""
    target = made.targets[0]
    if isinstance(target, ast.Attribute):
        return written(source, target).startswith("self.") and _class_of(source, call) is _class_of(source, made)
    assert isinstance(target, ast.Name)
    function = function_of(source, call)
    if function is function_of(source, made):
        return made.lineno < call.lineno
    home, scope = source.names.scopes[made], source.names.scopes[call]
    if source.names.parent(made) is not home.node:
        return binding_scope(scope, target.id) is home
    return means_variable(source, target.id, scope, home)


def _class_of(source: PythonSource, node: ast.AST) -> ast.AST | None:
    return next((above for above in source.names.ancestors(node) if isinstance(above, ast.ClassDef)), None)


def _reads_gradients(source: PythonSource) -> bool:
    """Return True if the file reads gradients, registers hooks on them or computes them explicitly."""
    if any(each.attr == "grad" and isinstance(each.ctx, ast.Load) for each in source.names.of_type(ast.Attribute)):
        return True
    return any(tail_of(call) in READS_GRADIENTS for call in source.names.of_type(ast.Call))


def _clips(source: PythonSource, steps: tuple[ast.Call, ...]) -> tuple[ast.stmt, ...] | None:
    """Return the first clipping statement before each step in the step's block.

    Return None if the file also clips gradients in other places.
    """
    first: list[ast.stmt] = []
    covered: set[ast.Call] = set()
    for step in steps:
        statement = source.names.statement(step)
        block = block_of(source, statement)
        clipping: ast.stmt | None = None
        for before in reversed(block[: block.index(statement)]):
            calls = [each for each in ast.walk(before) if isinstance(each, ast.Call)]
            if any(tail_of(each) in ("backward", "step") for each in calls):
                break
            found = [each for each in calls if tail_of(each) in CLIPS]
            clipping = before if found else clipping
            covered.update(found)
        first += [clipping] if clipping is not None else []
    every = {call for call in source.names.of_type(ast.Call) if tail_of(call) in CLIPS}
    return tuple(first) if every == covered else None
