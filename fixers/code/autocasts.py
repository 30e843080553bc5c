"""Read the dtype, the device and the API version of autocast calls."""

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
    """Return True if the called function belongs to torch."""
    return (source.names.meaning(call.func) or "").startswith("torch.")


def is_on(source: PythonSource, autocast: ast.Call) -> bool:
    """Return True unless the call is CPU autocast or has `enabled=False`."""
    off = any(each.arg == "enabled" and constant_of(each.value) is False for each in autocast.keywords)
    return not off and not (source.names.meaning(autocast.func) or "").startswith("torch.cpu.")


def is_half(source: PythonSource, autocast: ast.Call, target: Target) -> bool:
    """Return True if autocast runs in float16.

    Without a dtype, autocast runs in float16 on CUDA. On a card without bfloat16, a variable counts as float16.
    """
    given = dtype_of(autocast)
    if given is None:
        return is_torch(source, autocast) and (device_written(source, autocast) or DEVICE).strip("'\"") == "cuda"
    values = [each for value in _values(source, given) for each in _branches(value)]
    meanings = [source.names.meaning(value) for value in values]
    if values and all(meaning in DTYPES for meaning in meanings):
        return values_are_half(source, given) or (target.below(BF16_FROM) and _is_choice_of_halves(meanings))
    return is_variable(source, given) and target.below(BF16_FROM) and is_torch(source, autocast)


def _is_choice_of_halves(meanings: list[str | None]) -> bool:
    """Return True if all values are float16 or bfloat16 and at least one is float16.

    Call it only for a card without bfloat16: there, the fixers replace bfloat16 with float16.
    """
    return all(each in (*HALVES, "torch.bfloat16") for each in meanings) and any(each in HALVES for each in meanings)


def dtype_of(autocast: ast.Call) -> ast.expr | None:
    """Return the dtype argument of autocast, or None."""
    given = [*autocast.args[1:2], *(each.value for each in autocast.keywords if each.arg == "dtype")]
    return given[0] if given else None


def is_variable(source: PythonSource, dtype: ast.expr) -> bool:
    """Return True for a variable or attribute that is not an imported name."""
    return isinstance(dtype, (ast.Name, ast.Attribute)) and source.names.meaning(dtype) is None


def _values(source: PythonSource, given: ast.expr) -> list[ast.expr]:
    """Return all values assigned to a name, or an empty list if the name is also bound in another way."""
    if not isinstance(given, ast.Name) or source.names.meaning(given) is not None:
        return [given]
    assigned = [each.value for each in source.names.of_type(ast.Assign) if _assigns_to(each, given.id)]
    stored = [
        each for each in source.names.of_type(ast.Name) if each.id == given.id and isinstance(each.ctx, ast.Store)
    ]
    arguments = any(each.arg == given.id for each in source.names.of_type(ast.arg))
    return assigned if len(stored) == len(assigned) and not arguments else []


def _branches(value: ast.expr) -> list[ast.expr]:
    return [*_branches(value.body), *_branches(value.orelse)] if isinstance(value, ast.IfExp) else [value]


def _assigns_to(assignment: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in assignment.targets)


def is_old_api(source: PythonSource, autocast: ast.Call) -> bool:
    """Return True for `torch.cuda.amp.autocast`. Its first argument is `enabled`."""
    return (source.names.meaning(autocast.func) or "").startswith("torch.cuda.amp.")


def device_written(source: PythonSource, autocast: ast.Call) -> str:
    """Return the source text of the device argument, or an empty string if there is no such argument."""
    given = device_of(source, autocast)
    return source.segment(given) if given is not None else ""


def device_of(source: PythonSource, autocast: ast.Call) -> ast.expr | None:
    """Return the device argument of autocast, or None if there is none. The CUDA-only API has no such argument."""
    if is_old_api(source, autocast):
        return None
    given = [*autocast.args[:1], *(each.value for each in autocast.keywords if each.arg == "device_type")]
    return given[0] if given else None


def values_are_half(source: PythonSource, dtype: ast.expr) -> bool:
    """Return True if the dtype is float16 or a name to which this file assigns only float16."""
    values = [each for value in _values(source, dtype) for each in _branches(value)]
    return bool(values) and all(source.names.meaning(value) in HALVES for value in values)
