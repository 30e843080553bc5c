"""scaler-gate: a loss scaler is on exactly where autocast runs in float16.

What it does
    A `GradScaler` made without `enabled=`, in a file whose autocast takes its dtype from a variable, gets
    `enabled=<that variable> == torch.float16`. A loop that runs backward under float16 autocast without any scaler
    is told. A scaler whose dtype is written down, or that is already gated, is left.

Why
    One script often carries several precisions. With bfloat16 a scaler refuses or does nothing useful; with float32 it
    costs time; without one, float16 gradients below 6e-8 become zero and nothing trains.

Before
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=amp_dtype): ...

After
    scaler = torch.amp.GradScaler("cuda", enabled=amp_dtype == torch.float16)
    with torch.autocast("cuda", dtype=amp_dtype): ...

What it can break
    Code that reads `scaler.get_scale()` sees 1.0 where the scaler is off.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.found import Found
from fixers.source_fixer import NOTHING, Rewrite
from fixers.sources.imports import name_of
from fixers.sources.python import PythonSource, reads_python
from fixers.sources.source import Source
from fixers.sources.training_setup import tail_of
from fixers.target import Target

name = "scaler-gate"
version = 1
safety = "safe"
needles = (b"autocast",)
below = None
brings: tuple[str, ...] = ()
matches = reads_python

SCALERS = ("GradScaler", "ShardedGradScaler")
SCALES_ITSELF = (b"GradScaler", b"Accelerator", b"Trainer", b"deepspeed", b"lightning")
WHY = "the scaler is for float16 alone"


def rewrite(source: Source, target: Target) -> Rewrite:
    """Scalers gated by the dtype of autocast; a float16 loop without one told."""
    if b".backward(" not in source.data and b"GradScaler" not in source.data:
        return NOTHING
    found = Found(source.python, name)
    for call in found.source.names.of_type(ast.Call):
        if tail_of(call) in SCALERS and _is_torch(found.source, call):
            _gate(found, call)
    if not any(word in source.data for word in SCALES_ITSELF):
        _tell_unscaled(found)
    return found.rewrite


def _is_torch(source: PythonSource, call: ast.Call) -> bool:
    return (source.names.meaning(call.func) or "").startswith("torch.")


def _gate(found: Found, call: ast.Call) -> None:
    if any(keyword.arg in ("enabled", None) for keyword in call.keywords):
        return
    dtypes = {
        found.source.segment(each) for each in _autocast_dtypes(found.source) if _is_known(found.source, each, call)
    }
    torch = name_of(found.source, "torch")
    if len(dtypes) == 1 and torch is not None:
        enabled = f"enabled={dtypes.pop()} == {torch}.float16"
        found.edits.append(found.source.append_argument(call, enabled, WHY))


def _autocast_dtypes(source: PythonSource) -> Iterator[ast.Name | ast.Attribute]:
    """The variables that autocast takes its dtype from."""
    for call in source.names.of_type(ast.Call):
        if tail_of(call) == "autocast":
            for value in (*call.args[1:2], *(each.value for each in call.keywords if each.arg == "dtype")):
                if isinstance(value, (ast.Name, ast.Attribute)) and source.names.meaning(value) is None:
                    yield value


def _is_known(source: PythonSource, dtype: ast.expr, call: ast.Call) -> bool:
    """The variable has its value where the scaler is made."""
    root = dtype
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    if _is_argument(source.names.scopes[call].node, root.id):
        return True
    return any(_binds(source, node, root.id, call) for node in source.names.of_type(ast.Name))


def _binds(source: PythonSource, node: ast.Name, identifier: str, call: ast.Call) -> bool:
    if node.id != identifier or not isinstance(node.ctx, ast.Store):
        return False
    function = source.names.function(node)
    if function is source.names.function(call):
        return node.lineno < call.lineno
    return isinstance(function, ast.Module)


def _is_argument(function: ast.AST, identifier: str) -> bool:
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    arguments = function.args
    return identifier in {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _tell_unscaled(found: Found) -> None:
    backwards = [call for call in found.source.names.of_type(ast.Call) if tail_of(call) == "backward"]
    for call in found.source.names.of_type(ast.Call):
        if tail_of(call) != "autocast" or not backwards:
            continue
        values = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "dtype")]
        if any(found.source.names.meaning(each) in ("torch.float16", "torch.half") for each in values):
            message = "backward under float16 autocast without a loss scaler: small gradients become zero"
            found.warn(call, message, hint='scaler = torch.amp.GradScaler("cuda")')
            return
