"""Find the calls that advance a learning rate schedule after an optimizer step of a plain loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.sources.expressions import tail_of, values_of, written
from fixers.sources.plain_loop import PlainLoop
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import block_of

OF_TORCH = "torch.optim.lr_scheduler."
FACTORIES = re.compile(r"(?:transformers|diffusers)\.(?:\w+\.)*get_\w*schedule\w*$")
SCHEDULES = re.compile(r"(?i:\w*schedule)|\w*LR$")
BY_METRIC = "Plateau"
"""A part of the name `ReduceLROnPlateau`: this schedule counts evaluations, not optimizer steps."""


def schedule_steps(source: PythonSource, loop: PlainLoop, step: ast.Call) -> Iterator[ast.stmt]:
    """Yield the statements that advance a schedule after this optimizer step and before the next, in the same block.

    A statement that is alone under a condition is also found.
    """
    statement = source.names.statement(step)
    block = block_of(source, statement)
    for later in block[block.index(statement) + 1 :]:
        if any(node in loop.steps for node in ast.walk(later) if isinstance(node, ast.Call)):
            return
        only = _only_statement(later)
        if _advances_schedule(source, loop, only):
            yield only


def _only_statement(statement: ast.stmt) -> ast.stmt:
    """Return the statement that is alone under one or several conditions, or the statement itself."""
    while isinstance(statement, ast.If) and len(statement.body) == 1 and not statement.orelse:
        statement = statement.body[0]
    return statement


def _advances_schedule(source: PythonSource, loop: PlainLoop, statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="step", value=schedule)) as step):
            made = list(_values(source, written(source, schedule)))
            return bool(made) and all(_makes_schedule(source, loop, value, step) for value in made)
    return False


def _values(source: PythonSource, name: str) -> Iterator[ast.expr]:
    """Yield the values other than None that the file assigns to the name."""
    assignments: tuple[ast.Assign | ast.AnnAssign, ...] = source.names.of_type(ast.Assign)
    for node in (*assignments, *source.names.of_type(ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is not None and any(written(source, target) == name for target in targets):
            yield from _alternatives(node.value)


def _alternatives(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.IfExp):
        yield from _alternatives(value.body)
        yield from _alternatives(value.orelse)
    elif not (isinstance(value, ast.Constant) and value.value is None):
        yield value


def _makes_schedule(source: PythonSource, loop: PlainLoop, value: ast.expr, step: ast.Call) -> bool:
    """Return True for a call of torch, transformers or a project's own function that returns a schedule."""
    if not isinstance(value, ast.Call) or BY_METRIC in tail_of(value):
        return False
    meaning = source.names.meaning(value.func) or ""
    if meaning.startswith(OF_TORCH):
        return True
    if step.args or step.keywords:
        return False
    if FACTORIES.match(meaning):
        return True
    given = (written(source, argument) for argument in (*value.args, *values_of(value)))
    return SCHEDULES.match(tail_of(value)) is not None and loop.optimizer in given
