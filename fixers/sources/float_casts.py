"""Find casts of a model's trainable parameters to float32: loops, library calls, and functions of the same file."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from fixers.sources.expressions import tail_of, values_of, written
from fixers.sources.model_wraps import calls_in
from fixers.sources.names import FUNCTIONS
from fixers.sources.optimized_models import makes_float32
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import block_of, changes_dtype, mentions

MODULES = frozenset({"modules", "named_modules", "children", "named_children"})
CASTERS = re.compile(
    r"cast_(?:mixed_precision|training)_params|_*upcast_\w+|prepare_model_for_(?:kbit|int8)_training"
    r"|_*cast_\w*(?:float32|fp32)\w*|\w+_to_(?:float32|fp32)"
)
"""Matches functions of libraries or other files that cast trainable parameters to float32."""
ADAPTERS = "peft.get_peft_model"
"""Among the casting functions: PEFT creates adapters in float32."""
TRAINED_PART = re.compile(r"prefix|prompt|adapter|lora|projector|connector|resampler|qformer", re.IGNORECASE)
PREPARES = re.compile(r"prepare_model_for_(?:kbit|int8)_training")
LOADS_ADAPTER = re.compile(r"peft\.(?:\w+\.)*(?:Auto)?PeftModel\w*\.from_pretrained")
ABOUT_PRECISION = re.compile(r"fp16|float16|half|precision|dtype|bf16|[48]_?bit|int[48]|quanti[sz]", re.IGNORECASE)


def is_cast(source: PythonSource, statement: ast.stmt, owner: str, casters: Collection[str] = ()) -> bool:
    """Return True if the statement casts the model's trainable parameters to float32.

    `casters`: functions of other files that cast trainable parameters to float32.
    """
    if isinstance(statement, ast.For):
        return _is_cast_loop(source, statement, owner)
    if isinstance(statement, ast.If):
        return _is_cast_branch(source, statement, owner, casters)
    if _is_assigned_cast(source, statement, owner):
        return True
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call):
        return False
    if ADAPTERS in casters and _makes_float32_adapter(source, call) and _concerns(source, statement, call, owner):
        return True
    if isinstance(call.func, ast.Attribute) and _is_trained_part(written(source, call.func.value), owner):
        return makes_float32(source, call)
    given = [*call.args, *values_of(call)]
    if not mentions(source, given, owner) and not any(_is_list_with(source, each, owner) for each in given):
        return False
    if CASTERS.fullmatch(tail_of(call)) is not None:
        return True
    return tail_of(call) in casters or tail_of(call) in _casting_functions(source)


def is_cast_before(source: PythonSource, place: ast.stmt, owner: str, casters: Collection[str]) -> bool:
    """Return True if the model is cast before the statement and the dtype does not change after the cast."""
    block = block_of(source, place)
    above = source.names.parent(place)
    for earlier in reversed(block[: block.index(place)]):
        if is_cast(source, earlier, owner, casters):
            return True
        changing = [call for call in calls_in(earlier) if changes_dtype(source, call, owner)]
        if changing and not _adapters_keep_float32(source, changing, block[: block.index(earlier)], owner):
            return False
    if isinstance(above, ast.stmt) and not isinstance(above, (*FUNCTIONS, ast.ClassDef)):
        return is_cast_before(source, above, owner, casters)
    return False


def _adapters_keep_float32(source: PythonSource, changing: list[ast.Call], before: list[ast.stmt], owner: str) -> bool:
    """Return True if PEFT casts the adapters to float32, and `prepare_model_for_*_training` casts the other weights."""
    if not all(_makes_float32_adapter(source, call) for call in changing):
        return False
    return any(
        PREPARES.fullmatch(tail_of(call)) and is_cast(source, each, owner) for each in before for call in calls_in(each)
    )


def _makes_float32_adapter(source: PythonSource, call: ast.Call) -> bool:
    """Return True if PEFT creates or loads an adapter and casts it to float32, which is its default."""
    if any(each.arg in ("autocast_adapter_dtype", None) for each in call.keywords):
        return False
    meaning = source.names.meaning(call.func) or ""
    if tail_of(call) == "get_peft_model":
        return isinstance(call.func, ast.Name) or meaning.startswith("peft.")
    return bool(LOADS_ADAPTER.fullmatch(meaning))


def _is_trained_part(name: str, owner: str) -> bool:
    """Return True for the model, and for a part such as `model.prefix_encoder` that is added to it to be trained."""
    return name == owner or (name.startswith(f"{owner}.") and TRAINED_PART.search(name.rpartition(".")[2]) is not None)


def _concerns(source: PythonSource, statement: ast.stmt, call: ast.Call, owner: str) -> bool:
    """Return True if the call changes the model, or if its result is assigned to the model."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return mentions(source, [*call.args, *values_of(call)], owner) or owner in (written(source, e) for e in targets)


def _is_assigned_cast(source: PythonSource, statement: ast.stmt, owner: str) -> bool:
    """Return True for `model = prepare_model_for_kbit_training(model)`."""
    match statement:
        case ast.Assign(targets=[target], value=ast.Call() as call) if written(source, target) == owner:
            return CASTERS.fullmatch(tail_of(call)) is not None
    return False


def _is_cast_branch(source: PythonSource, branch: ast.If, owner: str, casters: Collection[str]) -> bool:
    """Return True if all branches cast the model, or if the branch tests the precision and one of its blocks casts."""
    if all(_ends_float32(source, block, owner, casters) for block in (branch.body, branch.orelse)):
        return True
    if not ABOUT_PRECISION.search(source.segment(branch.test)):
        return False
    others = [each for each in casters if each != ADAPTERS]
    return any(is_cast(source, each, owner, others) for block in (branch.body, branch.orelse) for each in block)


def _ends_float32(source: PythonSource, block: list[ast.stmt], owner: str, casters: Collection[str]) -> bool:
    """Return True if a statement of the block casts the model and no later statement changes the dtype."""
    for statement in reversed(block):
        if is_cast(source, statement, owner, casters):
            return True
        if any(changes_dtype(source, call, owner) for call in calls_in(statement)):
            return False
    return False


def _is_list_with(source: PythonSource, node: ast.expr, owner: str) -> bool:
    """Return True if the node is a list with the model `owner`: `models = [owner]` or `models.append(owner)`."""
    name = written(source, node)
    if not name:
        return False
    lists = (each for each in source.names.of_type(ast.Assign) if isinstance(each.value, (ast.List, ast.Tuple)))
    if any(written(source, one.targets[0]) == name and mentions(source, [one.value], owner) for one in lists):
        return True
    return any(
        tail_of(call) in ("append", "extend")
        and isinstance(call.func, ast.Attribute)
        and written(source, call.func.value) == name
        and mentions(source, call.args, owner)
        for call in source.names.of_type(ast.Call)
    )


def _is_cast_loop(source: PythonSource, loop: ast.For, owner: str) -> bool:
    """Return True if the loop casts in place: by assignment to `.data`, or by `.to` on modules."""
    if not mentions(source, [loop.iter], owner):
        return False
    keeps = any(isinstance(each, ast.Call) and tail_of(each) in MODULES for each in ast.walk(loop.iter))
    for node in (node for part in loop.body for node in ast.walk(part)):
        match node:
            case ast.Assign(targets=[ast.Attribute(attr="data")], value=value):
                if any(isinstance(each, ast.Call) and makes_float32(source, each) for each in ast.walk(value)):
                    return True
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name())) as call) if keeps:
                if makes_float32(source, call):
                    return True
    return False


def _casting_functions(source: PythonSource) -> frozenset[str]:
    """Return the functions of this file that loop over parameters and cast the trainable parameters to float32."""
    return source.remember("casting-functions", lambda: frozenset(_find_casting_functions(source)))


def _find_casting_functions(source: PythonSource) -> Iterator[str]:
    for function in source.names.of_type(ast.FunctionDef):
        for node in ast.walk(function):
            if (
                isinstance(node, ast.For)
                and "requires_grad" in source.segment(node)
                and _is_cast_loop(source, node, "")
            ):
                yield function.name
