"""Find casts of a model to half precision between the creation of its optimizer and its training."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from fixers.sources.expressions import tail_of, written
from fixers.sources.float_casts import is_cast
from fixers.sources.model_wraps import calls_in
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import Consumer, block_of, casts_to_half, changes_dtype, function_of, is_same_model

NOT_TRAINED = re.compile(r"not [\w.]*train\w*\b|.*\bpure_bf16\b", re.DOTALL)
EVALUATES = frozenset({"eval", "no_grad", "inference_mode", "generate", "predict", "evaluate"})
TRAINS = re.compile(r"(?:\w*_)?(?:backward|train|step|fit)(?:_\w*)?")


def is_called_later(python: PythonSource, call: ast.Call, consumer: Consumer) -> bool:
    """Return True if the call is in a method that the same class calls after it creates the optimizer."""
    within, creating_function = function_of(python, call), function_of(python, consumer.call)
    if not consumer.owner.startswith("self.") or not isinstance(within, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    if within is creating_function or python.names.parent(within) is not python.names.parent(creating_function):
        return False
    return any(
        written(python, each.func) == f"self.{within.name}" and each.lineno > consumer.call.lineno
        for each in python.names.of_type(ast.Call)
        if function_of(python, each) is creating_function
    )


def is_cast_again(python: PythonSource, call: ast.Call, owner: str) -> bool:
    """Return True if the call casts the model, by its name or by an alias that is trained later."""
    if _is_at_the_end(python, call) or not is_trained(python, call):
        return False
    if changes_dtype(python, call, owner):
        return True
    if getattr(python.names.statement(call), "value", None) is not call or not isinstance(call.func, ast.Attribute):
        return False
    halves = call.func.attr == "half" or casts_to_half(python, call)
    return halves and is_same_model(python, call.func.value, owner) and _is_training_later(python, call)


def _is_at_the_end(python: PythonSource, call: ast.Call) -> bool:
    """Return True if the code after the cast saves the model and does not train it."""
    if _is_training_later(python, call):
        return False
    later = (each for each in python.names.of_type(ast.Call) if each.lineno > call.lineno)
    same = (each for each in later if function_of(python, each) is function_of(python, call))
    return any(tail_of(each).startswith("save") or tail_of(each).endswith("state_dict") for each in same)


def is_cast_later(python: PythonSource, statement: ast.stmt, owner: str, casters: Collection[str]) -> bool:
    """Return True if the model is cast to float32 after the statement, in its block, and before it is trained.

    Such a cast keeps the parameters that an optimizer already has, and changes their data.
    """
    block = block_of(python, statement)
    for later in block[block.index(statement) + 1 :]:
        if isinstance(later, FUNCTIONS):
            continue
        if is_cast(python, later, owner, casters):
            return True
        if any(changes_dtype(python, each, owner) or _trains(python, each) for each in calls_in(later)):
            return False
    return False


def is_trained(python: PythonSource, call: ast.Call) -> bool:
    """Return True if the model may be trained after this cast."""
    return not (is_not_trained(python, call) or is_for_evaluation(python, call))


def is_for_evaluation(python: PythonSource, call: ast.Call) -> bool:
    """Return True if the function trains before the cast, and only evaluates after it."""
    if _is_training_later(python, call):
        return False
    same = [each for each in python.names.of_type(ast.Call) if function_of(python, each) is function_of(python, call)]
    trained = any(each.lineno < call.lineno and _trains(python, each) for each in same)
    return trained and any(each.lineno >= call.lineno and tail_of(each) in EVALUATES for each in same)


def is_not_trained(python: PythonSource, call: ast.Call) -> bool:
    """Return True if the call is in a branch for a frozen model, such as `if not args.train_text_encoder:`.

    A branch for `pure_bf16` also counts: the weights trained in that branch are bfloat16 on purpose.
    """
    branches = (each for each in python.names.ancestors(call) if isinstance(each, ast.If))
    return any(NOT_TRAINED.match(python.segment(each.test)) is not None for each in branches)


def _is_training_later(python: PythonSource, call: ast.Call) -> bool:
    function = function_of(python, call)
    training = python.remember("training calls", lambda: _training_calls(python))
    return any(each.lineno > call.lineno and function_of(python, each) is function for each in training)


def _training_calls(python: PythonSource) -> list[ast.Call]:
    return [each for each in python.names.of_type(ast.Call) if _trains(python, each)]


def _trains(python: PythonSource, call: ast.Call) -> bool:
    """Return True if the function's name is common for training, or if the function is in this file and trains."""
    if TRAINS.fullmatch(tail_of(call)):
        return True
    called = call.func.id if isinstance(call.func, ast.Name) else ""
    return bool(called) and called in python.remember("training functions", lambda: _training_functions(python))


def _training_functions(python: PythonSource) -> frozenset[str]:
    """Return the names of the functions of this file that call a function whose name is common for training."""
    calls = (each for each in python.names.of_type(ast.Call) if TRAINS.fullmatch(tail_of(each)))
    return frozenset(getattr(function_of(python, each), "name", "") for each in calls)
