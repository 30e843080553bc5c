"""Find values that are only saved: their dtype is that of a file, and does not affect training."""

from __future__ import annotations

import ast
import re

from fixers.sources.expressions import tail_of, written
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import block_of

SAVES = frozenset({"save_pretrained", "save_file", "save_model", "push_to_hub", "save_checkpoint"})
WRITES = re.compile(r"_*(?:write|save|dump)\w*json|dump$")
SAVING = re.compile(r"_*(?:save|merge|convert|unwrap_and_save)_\w+")
MERGES = re.compile(r"PeftModel|\bmerge_")
TRAINS = re.compile(r"\b\w*Trainer\(|\.backward\(|\.fit\(|\.step\(|\.train\(\)|[Oo]ptimizer")


def is_saved(source: PythonSource, node: ast.expr, statement: ast.stmt) -> bool:
    """Return True if a call saves the value, or if one of the next four statements saves the cast model.

    Also return True if the statement loads a model that the function only saves.
    """
    for above in source.names.ancestors(node):
        if isinstance(above, ast.Call) and _saves(source, above):
            return True
        if isinstance(above, FUNCTIONS):
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) and SAVING.match(above.name):
                return True
            break
    if _describes_a_saved_file(source, statement) or _is_loaded_to_be_saved(source, statement):
        return True
    owner = _cast_model(source, node, statement)
    if not owner:
        return False
    block = block_of(source, statement)
    later = block[block.index(statement) + 1 :][:4]
    calls = (each for one in later for each in ast.walk(one) if isinstance(each, ast.Call))
    return any(_saves(source, call) and owner in _names_used(source, call) for call in calls)


def _describes_a_saved_file(source: PythonSource, statement: ast.stmt) -> bool:
    """Return True for `config["dtype"] = ...` in a function that writes `config` as JSON beside saved weights."""
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key))]):
            if key not in ("dtype", "torch_dtype"):
                return False
            function = source.names.function(statement)
            calls = (each for each in ast.walk(function) if isinstance(each, ast.Call))
            return any(WRITES.match(tail_of(each)) and name in map(source.segment, each.args) for each in calls)
    return False


def _is_loaded_to_be_saved(source: PythonSource, statement: ast.stmt) -> bool:
    """Return True if the statement loads a model, and its function only merges adapters into the model and saves it."""
    name, function = _loaded_name(statement), source.names.function(statement)
    if not name or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    text = source.segment(function)
    if not MERGES.search(text) or TRAINS.search(text):
        return False
    inner = list(ast.walk(function))
    saved = any(
        isinstance(each, ast.Call) and _saves(source, each) and name in _names_used(source, each) for each in inner
    )
    own = (each for each in inner if isinstance(each, ast.Name) and each.id == name)
    return saved and all(_keeps(source, each) for each in own if isinstance(each.ctx, ast.Load))


def _loaded_name(statement: ast.stmt) -> str:
    """Return `model` for `model = Model.from_pretrained(...)`, or an empty string."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as load) if tail_of(load) == "from_pretrained":
            return name
    return ""


def _keeps(source: PythonSource, use: ast.Name) -> bool:
    """Return True for `model.save_pretrained(path)`, `PeftModel.from_pretrained(model, path)` and `save(model)`."""
    child: ast.AST = use
    above = source.names.parent(use)
    while isinstance(above, (ast.Attribute, ast.keyword)):
        child, above = above, source.names.parent(above)
    if isinstance(above, ast.Call) and child is not above.func:
        return tail_of(above) in ("from_pretrained", "print", "len") or SAVING.match(tail_of(above)) is not None
    return isinstance(child, ast.Attribute)


def _saves(source: PythonSource, call: ast.Call) -> bool:
    return tail_of(call) in SAVES or source.names.meaning(call.func) in ("torch.save", "safetensors.torch.save_file")


def _names_used(source: PythonSource, call: ast.Call) -> set[str]:
    given = [*call.args, *(each.value for each in call.keywords)]
    own = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    parts = (node for each in (*given, *own) for node in ast.walk(each))
    return {written(source, node) for node in parts if isinstance(node, (ast.Name, ast.Attribute))}


def _cast_model(source: PythonSource, node: ast.expr, statement: ast.stmt) -> str:
    """Return `model` for the cast `model.to(torch.bfloat16)`, or an empty string if the node is not in a cast."""
    for above in source.names.ancestors(node):
        if (
            isinstance(above, ast.Call)
            and tail_of(above) in ("to", "bfloat16")
            and isinstance(above.func, ast.Attribute)
        ):
            if isinstance(statement, ast.Assign):
                return written(source, statement.targets[0])
            return written(source, above.func.value)
        if isinstance(above, ast.stmt):
            break
    return ""
