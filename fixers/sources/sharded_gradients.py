"""Find the options that select the dtype in which FSDP computes activations and gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.sources.expressions import assigned_before, tail_of
from fixers.sources.python import PythonSource
from fixers.sources.readers.reader import ANY, Unscaled
from fixers.sources.readers.subjects import NAMES_PRECISION, subject_of

POLICIES = ("MixedPrecision", "MixedPrecisionPolicy")


def options_of_gradients(source: PythonSource) -> tuple[Unscaled, ...]:
    """Return the options that set `param_dtype` in an FSDP policy, with the line of the policy."""
    found: dict[str, Unscaled] = {}
    for call in source.names.of_type(ast.Call):
        if tail_of(call) in POLICIES:
            for value in (*call.args[:1], *(each.value for each in call.keywords if each.arg == "param_dtype")):
                for option in _options(source, value):
                    found.setdefault(option, Unscaled(option, source.where(call)))
    return tuple(found.values())


def _options(source: PythonSource, value: ast.expr) -> Iterator[str]:
    """Yield the options that select the dtype, directly or through a variable.

    In `DTYPES[args.model_dtype]`, the option is `model_dtype`.
    """
    values = list(assigned_before(source, value, value.id)) if isinstance(value, ast.Name) else [value]
    for each in values:
        key = _key(each)
        option = subject_of(source, key) if key is not None else None
        if option is not None and option != ANY and NAMES_PRECISION.fullmatch(option):
            yield option


def _key(value: ast.expr) -> ast.expr | None:
    """Return the expression that selects the dtype: the index of a table, or the argument of a conversion function.

    Return None for other values.
    """
    match value:
        case ast.Subscript(slice=key) if not isinstance(key, ast.Constant):
            return key
        case ast.Call(args=[*_, key]):
            return key
    return None
