"""Find models whose dtype must not change, because their optimizer exists already or a test compares dtypes."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from fixers.sources.expressions import tail_of, values_of, written
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import Consumer

OPTIMIZER = re.compile(r"(?:\w*_)?optim(?:izer)?s?$")
ENGINES = frozenset({"prepare", "initialize"})
TEST = re.compile(r"test_\w+")


def has_optimizer_argument(call: ast.Call) -> bool:
    """Return True if an existing optimizer is passed to the call: `MyTrainer(model=model, optim=optim)`."""
    given = (each for each in call.keywords if OPTIMIZER.match(each.arg or ""))
    return any(not isinstance(each.value, (ast.Constant, ast.JoinedStr)) for each in given)


def is_given_to(source: PythonSource, consumer: Consumer, names: Collection[str]) -> bool:
    """Return True if the model and its optimizer are arguments of one of these classes or functions."""
    statement = consumer.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    optimizers = {written(source, each) for each in targets} - {""}
    for call in source.names.of_type(ast.Call) if names and optimizers and not consumer.trainer else ():
        given = {written(source, each) for each in (*call.args, *values_of(call))}
        if tail_of(call) in names and consumer.owner in given and optimizers & given:
            return True
    return False


def is_prepared_with_optimizer(source: PythonSource, owner: str, at: ast.AST) -> bool:
    """Return True if an engine created the optimizer of the model: `model, optim, _ = engine.prepare((model, config))`.

    Accelerate's `prepare(model, optimizer)` is excluded: its optimizer is created before the call.
    """
    for node in source.names.of_type(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Call() as made) if tail_of(made) in ENGINES:
                names = [written(source, each) for each in parts]
                direct = any(written(source, each) == owner for each in made.args)
                optimized = any(OPTIMIZER.match(each.rpartition(".")[2]) for each in names)
                same = source.names.function(node) is source.names.function(at)
                if owner in names and optimized and not direct and same and node.lineno < at.lineno:  # type: ignore[attr-defined]
                    return True
    return False


def is_tested_in_half(source: PythonSource, owner: str, at: ast.AST) -> bool:
    """Return True in a test function, or if one dictionary of options casts the model and creates its inputs."""
    function = source.names.function(at)
    if isinstance(function, FUNCTIONS) and TEST.fullmatch(getattr(function, "name", "")):
        return True
    calls = [call for call in source.names.of_type(ast.Call) if source.names.function(call) is function]
    casts = [call for call in calls if _receiver(source, call) == owner and tail_of(call) == "to"]
    shared = {name for call in casts for name in _unpacked(source, call)}
    return any(shared.intersection(_unpacked(source, call)) for call in calls if call not in casts)


def _receiver(source: PythonSource, call: ast.Call) -> str:
    return written(source, call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _unpacked(source: PythonSource, call: ast.Call) -> Iterator[str]:
    yield from (written(source, each.value) for each in call.keywords if each.arg is None)
