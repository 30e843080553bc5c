"""Calls of autocast: whether it runs in float16, from which variable, on which device."""

from __future__ import annotations

import ast

from fixers.frame.target import Target
from fixers.sources.chosen_words import constant_of
from fixers.sources.python import PythonSource
from remote.policy.precision import BF16_FROM

HALVES = ("torch.float16", "torch.half")
DTYPES = (*HALVES, "torch.bfloat16", "torch.float32", "torch.float")
DEVICE = '"cuda"'


def is_torch(source: PythonSource, call: ast.Call) -> bool:
    """What is called is torch's."""
    return (source.names.meaning(call.func) or "").startswith("torch.")


def is_on(source: PythonSource, autocast: ast.Call) -> bool:
    """Not for a CPU by its name, and not an island that turns autocast off."""
    off = any(each.arg == "enabled" and constant_of(each.value) is False for each in autocast.keywords)
    return not off and not (source.names.meaning(autocast.func) or "").startswith("torch.cpu.")


def is_half(source: PythonSource, autocast: ast.Call, target: Target) -> bool:
    """Autocast runs in float16: said so, or by default; on a card that has no bfloat16, also where a variable says."""
    given = dtype_of(autocast)
    if given is None:
        return is_torch(source, autocast) and (device_written(source, autocast) or DEVICE).strip("'\"") == "cuda"
    values = [each for value in _values(source, given) for each in _branches(value)]
    if values and all(source.names.meaning(value) in DTYPES for value in values):
        return values_are_half(source, given)
    return is_variable(source, given) and target.below(BF16_FROM) and is_torch(source, autocast)


def dtype_of(autocast: ast.Call) -> ast.expr | None:
    """What autocast is given as its dtype."""
    given = [*autocast.args[1:2], *(each.value for each in autocast.keywords if each.arg == "dtype")]
    return given[0] if given else None


def is_variable(source: PythonSource, dtype: ast.expr) -> bool:
    """A name that is not imported."""
    return isinstance(dtype, (ast.Name, ast.Attribute)) and source.names.meaning(dtype) is None


def _values(source: PythonSource, given: ast.expr) -> list[ast.expr]:
    """What a name is given wherever it is bound; none where it is bound in other ways than by assignment."""
    if not isinstance(given, ast.Name) or source.names.meaning(given) is not None:
        return [given]
    assigned = [each.value for each in source.names.of_type(ast.Assign) if _names(each, given.id)]
    stored = [
        each for each in source.names.of_type(ast.Name) if each.id == given.id and isinstance(each.ctx, ast.Store)
    ]
    arguments = any(each.arg == given.id for each in source.names.of_type(ast.arg))
    return assigned if len(stored) == len(assigned) and not arguments else []


def _branches(value: ast.expr) -> list[ast.expr]:
    return [*_branches(value.body), *_branches(value.orelse)] if isinstance(value, ast.IfExp) else [value]


def _names(assignment: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in assignment.targets)


def is_old_api(source: PythonSource, autocast: ast.Call) -> bool:
    """`torch.cuda.amp.autocast`, whose first argument is its switch."""
    return (source.names.meaning(autocast.func) or "").startswith("torch.cuda.amp.")


def device_written(source: PythonSource, autocast: ast.Call) -> str:
    """The device of autocast as it is written; empty where its name says it."""
    given = device_of(source, autocast)
    return source.segment(given) if given is not None else ""


def device_of(source: PythonSource, autocast: ast.Call) -> ast.expr | None:
    """What autocast is given as its device; None where its name says it."""
    if is_old_api(source, autocast):
        return None
    given = [*autocast.args[:1], *(each.value for each in autocast.keywords if each.arg == "device_type")]
    return given[0] if given else None


def values_are_half(source: PythonSource, dtype: ast.expr) -> bool:
    """float16 itself, or a name that is given nothing else in this file."""
    values = [each for value in _values(source, dtype) for each in _branches(value)]
    return bool(values) and all(source.names.meaning(value) in HALVES for value in values)
