"""Add a loss scaler to a plain loop. The learning rate schedule does not advance when the scaler skips a step."""

from __future__ import annotations

import ast
import re
from itertools import count

from fixers.sources.imports import name_of
from fixers.sources.plain_loop import PlainLoop
from fixers.sources.python import PythonSource
from fixers.sources.schedule_steps import schedule_steps
from fixers.sources.shared_lines import add_after, add_before
from fixers.sources.splice import Edit, newline_of

NAMES = ("scaler", "loss_scaler", "grad_scaler")
ABSENT = "float16 gradients below 6e-8 are zero without a loss scale"
SKIPPED = "the schedule does not advance if the scaler skips the optimizer step"


def scaled_loop(source: PythonSource, loop: PlainLoop, expression: str | None) -> list[Edit] | None:
    """Return the edits that add a scaler to the loop, or None if an edit is impossible.

    `expression` creates the scaler, with `{torch}` for the module.
    """
    torch = name_of(source, "torch")
    scaler = _free_name(source, loop.optimizer)
    if torch is None or scaler is None or expression is None:
        return None
    made = f"{scaler} = {expression.format(torch=torch)}"
    lines = [add_after(source, loop.made, (made,), ABSENT)]
    lines += [add_before(source, each, f"{scaler}.unscale_({loop.optimizer})", ABSENT) for each in loop.clips]
    for step in loop.steps:
        lines += _scaled_step(source, loop, step, scaler)
    edits = [each for each in lines if each is not None]
    if len(edits) < len(lines):
        return None
    return edits + [edit for call in loop.backwards for edit in _scaled_backward(source, call, scaler)]


def _scaled_step(source: PythonSource, loop: PlainLoop, step: ast.Call, scaler: str) -> list[Edit | None]:
    """Return the edits of one optimizer step and of the schedule that follows it.

    An edit that is impossible is None.
    """
    schedules = list(schedule_steps(source, loop, step))
    before = _free_variable(source, "scale_before")
    remembered = (f"{before} = {scaler}.get_scale()",) if schedules else ()
    return [
        source.replace_node(step, f"{scaler}.step({loop.optimizer})", ABSENT),
        add_after(source, source.names.statement(step), (*remembered, f"{scaler}.update()"), ABSENT),
        *(_put_under(source, each, f"{scaler}.get_scale() >= {before}") for each in schedules),
    ]


def _put_under(source: PythonSource, statement: ast.stmt, condition: str) -> Edit:
    """Return the edit that puts the statement under a condition.

    If the line has other statements, `statement` becomes `condition and statement` instead of an `if` block.
    """
    start, indentation = source.span(statement)[0], source.indentation(statement)
    if indentation is None or source.insert_after(statement, (), SKIPPED) is None:
        return source.insert(start, f"{condition} and ", SKIPPED)
    newline = newline_of(source.text).decode()
    return source.insert(start, f"if {condition}:{newline}{indentation}{_indent_unit(source, statement)}", SKIPPED)


def _indent_unit(source: PythonSource, statement: ast.stmt) -> str:
    """Return one level of indentation: the statement's indentation beyond its parent's, else a tab or four spaces."""
    above, own = source.names.parent(statement), source.indentation(statement) or ""
    outer = source.indentation(above) if isinstance(above, ast.stmt) else None
    if outer is not None and own.startswith(outer) and own != outer:
        return own.removeprefix(outer)
    return "\t" if "\t" in own else "    "


def _scaled_backward(source: PythonSource, call: ast.Call, scaler: str) -> list[Edit]:
    assert isinstance(call.func, ast.Attribute)
    start, end = source.span(call.func.value)
    if source.span(call)[0] < start:
        return [source.insert(source.span(call)[0], f"{scaler}.scale", ABSENT)]
    return [source.insert(start, f"{scaler}.scale(", ABSENT), source.insert(end, ")", ABSENT)]


def _free_name(source: PythonSource, optimizer: str) -> str | None:
    """Return an unused name for the scaler, or None if every candidate is used.

    If the optimizer is an attribute, the scaler becomes an attribute.
    """
    before = optimizer.rpartition(".")[0]
    taken = {each.id for each in source.names.of_type(ast.Name)} | {each.arg for each in source.names.of_type(ast.arg)}
    taken |= {each.attr for each in source.names.of_type(ast.Attribute)}
    free = next((each for each in NAMES if each not in taken), None)
    return f"{before}.{free}" if before and free else free


def _free_variable(source: PythonSource, wanted: str) -> str:
    """Return the wanted name, with a number if the file contains the name already."""
    names = (wanted if number == 1 else f"{wanted}_{number}" for number in count(1))
    return next(each for each in names if not re.search(rf"\b{each}\b".encode(), source.text))
