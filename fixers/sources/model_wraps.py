"""Find the statements that wrap a model for sharding or replication. Casts must be inserted before these statements."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.sources.expressions import tail_of, written
from fixers.sources.options import entries_of, name_of_entry
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import SIMPLE, block_of, changes_dtype, function_of, wraps_model

COPIES = re.compile(r"^deepcopy$|^AveragedModel$|EMA|^ModelEma|Ema$|ExponentialMovingAverage")
AVERAGES = re.compile(r"ema|avg|average|shadow", re.IGNORECASE)
FSDP_VERSION_2 = re.compile(rb"fsdp_version[\"']?\s*[:=]\s*[\"']?2")
FLATTENS = ("FSDP", "FullyShardedDataParallel")
WRAPS_APART = re.compile(
    rb"fsdp_auto_wrap_policy|lambda_auto_wrap_policy|LambdaPolicy|BitsAndBytesConfig|load_in_[48]bit|bnb_4bit"
)


def before_wrap(python: PythonSource, statement: ast.stmt, owner: str) -> tuple[ast.stmt, str]:
    """Return the statement before which a cast must be inserted, and the model's name at that point.

    The returned statement is the earliest one in the block that wraps or copies the model, or else `statement`.
    """
    block = block_of(python, statement)
    cast = False
    for earlier in reversed(block[: block.index(statement)]):
        for call in calls_in(earlier):
            copied = not cast and _copies(python, earlier, call, owner)
            inner = owner if copied else _wrapped(python, earlier, call, owner)
            if inner is not None and isinstance(earlier, SIMPLE):
                return before_wrap(python, earlier, inner)
            if inner is not None and _assigned_before(python, earlier, inner):
                return before_wrap(python, earlier, inner)
        cast = cast or any(changes_dtype(python, call, owner) for call in calls_in(earlier))
    return statement, owner


def _copies(python: PythonSource, statement: ast.stmt, call: ast.Call, owner: str) -> bool:
    """Return True if the call copies the model for a moving average. The average must have the dtype of the model."""
    if tail_of(call) == "deepcopy":
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if not any(AVERAGES.search(written(python, target)) for target in targets):
            return False
    given = call.args[:1]
    if given and isinstance(given[0], ast.Call) and tail_of(given[0]) in ("parameters", "state_dict"):
        given = [given[0].func.value] if isinstance(given[0].func, ast.Attribute) else []
    return COPIES.search(tail_of(call)) is not None and [written(python, each) for each in given] == [owner]


def _wrapped(python: PythonSource, statement: ast.stmt, call: ast.Call, owner: str) -> str | None:
    """Return the name of the model that the call wraps.

    Return None if `owner` is neither this model nor the result of the call.
    """
    if wraps_model(python, call, owner):
        return owner
    if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
        given = [python.segment(each) for each in call.args[:1] if isinstance(each, (ast.Name, ast.Attribute))]
        if given and python.segment(statement.targets[0]) == owner and wraps_model(python, call, given[0]):
            return given[0]
    return None


def _assigned_before(python: PythonSource, statement: ast.stmt, owner: str) -> bool:
    block = block_of(python, statement)
    root = owner.partition(".")[0]
    function = function_of(python, statement)
    if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        if root in {argument.arg for argument in arguments}:
            return True
    earlier = block[: block.index(statement)]
    return any(
        isinstance(node, ast.Name) and node.id == root and isinstance(node.ctx, ast.Store)
        for each in earlier
        for node in ast.walk(each)
    )


def flattening(python: PythonSource, statement: ast.stmt, owner: str) -> list[ast.stmt]:
    """Return the statements in `statement` (or `statement` itself) in which FSDP flattens the model.

    FSDP stores frozen and trainable parameters in one tensor, which has one dtype. The list is empty if a policy wraps
    trainable modules separately, or if weights are quantised.
    """
    if WRAPS_APART.search(python.text):
        return []
    calls = [call for call in calls_in(statement) if tail_of(call) in FLATTENS and wraps_model(python, call, owner)]
    statements = dict.fromkeys(python.names.statement(call) for call in calls)
    return [each for each in statements if isinstance(each, SIMPLE)]


def shards_by_arguments(python: PythonSource) -> bool:
    """Return True if the arguments of a trainer select FSDP 1: `TrainingArguments(fsdp="full_shard auto_wrap")`.

    FSDP 2 shards each parameter separately, so that only trained parameters need the same dtype.
    """
    if FSDP_VERSION_2.search(python.text) or WRAPS_APART.search(python.text):
        return False
    for call in python.names.of_type(ast.Call):
        given = [each.value for each in call.keywords if each.arg == "fsdp"]
        given += [
            value
            for each in call.keywords
            if each.arg is None
            for key, value in entries_of(python, each.value)
            if name_of_entry(key) == "fsdp"
        ]
        if tail_of(call).endswith(("TrainingArguments", "Config")) and any(_is_on(value) for value in given):
            return True
    return False


def _is_on(value: ast.expr) -> bool:
    """Return True if the argument selects a strategy: it is a list, or a literal that is true."""
    return isinstance(value, (ast.List, ast.Tuple)) or (isinstance(value, ast.Constant) and bool(value.value))


def calls_in(statement: ast.stmt) -> Iterator[ast.Call]:
    """Yield every call inside the statement, nested statements included."""
    return (node for node in ast.walk(statement) if isinstance(node, ast.Call))
