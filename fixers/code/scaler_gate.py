"""scaler-gate: a loss scaler is enabled exactly if autocast runs in float16.

What it does
    If a file creates a `GradScaler` without `enabled=` and its autocast takes the dtype from a variable, the scaler
    gets `enabled=<that variable> == torch.float16`. Not changed: scalers that have `enabled=`, whose autocast has a
    fixed dtype, or whose autocast has a variable that gets no value except float16 (values for a CPU do not count).

    A plain loop (one optimizer, `loss.backward()`, clipping, `optimizer.step()`) under float16 autocast without a
    scaler gets one. If a learning rate schedule advances after each optimizer step, its step is put under a condition,
    so that the schedule does not advance when the scaler skips a step. Any other loop without a scaler is reported.
    Also reported: a loss that is scaled by hand, clipping of gradients that are still scaled, and a call of `prepare`
    with an object that merely contains models or optimizers, because accelerate does not prepare its contents. `fused`
    becomes False where Fabric or Lightning's Trainer clips the gradients: in `16-mixed`, both reject a fused optimizer,
    because it unscales the gradients itself.

Why
    One script often supports several precisions. With bfloat16, a scaler fails or is useless. With float32, it costs
    time. Without a scaler, float16 gradients below 6e-8 become zero and the model does not learn.

Before
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=amp_dtype): ...

After
    scaler = torch.amp.GradScaler("cuda", enabled=amp_dtype == torch.float16)
    with torch.autocast("cuda", dtype=amp_dtype): ...

What it can break
    If the scaler is disabled, `scaler.get_scale()` returns 1.0. A new scaler skips steps whose gradients overflow,
    mostly the first ones. Checkpoints do not contain the new scaler's scale; a resumed run determines it again.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.code.autocasts import (
    DEVICE,
    device_of,
    device_written,
    dtype_of,
    is_half,
    is_old_api,
    is_on,
    is_torch,
    is_variable,
    values_are_half,
)
from fixers.code.draft import Draft
from fixers.code.fused_clipping import FUSED, may_be_fused, turn_off_fused
from fixers.code.scaled_clipping import may_scale, report_scaled
from fixers.code.scaled_loop import scaled_loop
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import tail_of
from fixers.sources.imports import name_of
from fixers.sources.lines import holds_any
from fixers.sources.plain_loop import PlainLoop, plain_loop, scaled_by_hand
from fixers.sources.python import PythonSource, reads_python
from fixers.sources.source import Source

name = "scaler-gate"
safety = "safe"
needles = (b"autocast", b"clip_grad", b".prepare(", FUSED)
below = None
requires: tuple[str, ...] = ()
matches = reads_python

SCALERS = ("GradScaler", "ShardedGradScaler")
SCALES = re.compile(r"\w*Trainer$|Accelerator$|Fabric$|LightningModule$|scale_loss$|(?:Sharded)?GradScaler$")
SCALING_LIBRARIES = ("deepspeed", "lightning", "pytorch_lightning", "accelerate", "apex")
SHARDS = re.compile(rb"FSDP|FullyShardedDataParallel|fully_shard")
WITHOUT_SCALER = "backward under float16 autocast without a loss scaler: small gradients become zero"
BY_HAND = "the loss is scaled by hand: steps that overflow are not skipped, and the scale is never lowered"
WHY = "only float16 needs the scaler"


def rewrite(source: Source, target: Target) -> Rewrite:
    """Enable each scaler by autocast's dtype, add a scaler to a plain float16 loop, and report other unscaled loops."""
    fused, scales = may_be_fused(source.searched), _may_scale(source.searched)
    if not (fused or scales):
        return NOTHING
    draft = Draft(source.python, name)
    if fused:
        turn_off_fused(draft, target)
    if scales:
        _judge_scaling(draft, target)
    return draft.rewrite


def _may_scale(data: bytes) -> bool:
    if not holds_any(data, (b"backward(", b"GradScaler", b"accelerator.prepare(")):
        return False
    return holds_any(data, (b"autocast",)) or may_scale(data)


def _judge_scaling(draft: Draft, target: Target) -> None:
    for call in draft.source.names.of_type(ast.Call):
        if tail_of(call) in SCALERS and is_torch(draft.source, call):
            _gate(draft, call, target.code_facts.float16_only)
    report_scaled(draft, target)
    if not _scales_already(draft.source):
        _scale(draft, target)


def _gate(draft: Draft, call: ast.Call, float16_only: tuple[str, ...]) -> None:
    if any(keyword.arg in ("enabled", None) for keyword in call.keywords):
        return
    dtypes = {
        draft.source.segment(each) for each in _autocast_dtypes(draft.source) if _is_known(draft.source, each, call)
    }
    if any(each.rpartition(".")[2] in float16_only for each in dtypes):
        return
    torch = name_of(draft.source, "torch")
    if len(dtypes) == 1 and torch is not None:
        enabled = f"enabled={dtypes.pop()} == {torch}.float16"
        draft.edits.append(draft.source.append_argument(call, enabled, WHY))


def _autocast_dtypes(source: PythonSource) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the variables that set autocast's dtype."""
    for call in source.names.of_type(ast.Call):
        if tail_of(call) == "autocast":
            for value in (*call.args[1:2], *(each.value for each in call.keywords if each.arg == "dtype")):
                if isinstance(value, (ast.Name, ast.Attribute)) and source.names.meaning(value) is None:
                    yield value


def _is_known(source: PythonSource, dtype: ast.expr, call: ast.Call | ast.stmt) -> bool:
    """Return True if the variable is defined at the place that creates the scaler."""
    root = dtype
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    if _is_argument(source.names.scopes[call].node, root.id):
        return True
    return any(_binds(source, node, root.id, call) for node in source.names.of_type(ast.Name))


def _binds(source: PythonSource, node: ast.Name, identifier: str, call: ast.Call | ast.stmt) -> bool:
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


def _scales_already(source: PythonSource) -> bool:
    """Return True if the file creates, receives or inherits a scaler, or imports a library that has one."""
    return _calls_scaler(source) or _inherits_scaler(source) or _imports_scaler(source)


def _calls_scaler(source: PythonSource) -> bool:
    """Return True for a call of a scaler's method, unless this file defines the scaler's class without a base class."""
    own = {each.name for each in source.names.of_type(ast.ClassDef) if not each.bases}
    for call in source.names.of_type(ast.Call):
        tail = tail_of(call)
        if (SCALES.match(tail) and tail not in own) or (tail == "backward" and _scaled_already(call)):
            return True
    return False


def _inherits_scaler(source: PythonSource) -> bool:
    bases = (base for each in source.names.of_type(ast.ClassDef) for base in each.bases)
    return any(SCALES.match(source.segment(base).rpartition(".")[2]) for base in bases)


def _imports_scaler(source: PythonSource) -> bool:
    meanings = (meaning for bound in source.names.module.bindings.values() for meaning in bound if meaning)
    return any(meaning.partition(".")[0] in SCALING_LIBRARIES for meaning in meanings)


def _scaled_already(backward: ast.Call) -> bool:
    """Return True if the loss is already scaled: `scaler.scale(loss).backward()` or `engine.backward(loss)`."""
    value = backward.func.value if isinstance(backward.func, ast.Attribute) else None
    return bool(backward.args) or (isinstance(value, ast.Call) and tail_of(value) == "scale")


def _scale(draft: Draft, target: Target) -> None:
    """Add a scaler to a plain float16 loop, or report any other loop."""
    source = draft.source
    halves = [call for call in source.names.of_type(ast.Call) if tail_of(call) == "autocast" and is_on(source, call)]
    halves = [call for call in halves if is_half(source, call, target)]
    if not halves or not any(tail_of(call) == "backward" for call in source.names.of_type(ast.Call)):
        return
    shards = SHARDS.search(source.text) is not None
    loop = None if shards else plain_loop(source)
    edits = scaled_loop(source, loop, _scaler_of_all(source, loop, halves, target)) if loop is not None else None
    if edits is None:
        message = BY_HAND if scaled_by_hand(source) else WITHOUT_SCALER
        device = device_written(source, halves[0]) or DEVICE
        made = "ShardedGradScaler()" if shards else f"torch.amp.GradScaler({device})"
        draft.warn(halves[0], message, hint=f"scaler = {made}")
    else:
        draft.edits += edits


def _scaler_of_all(source: PythonSource, loop: PlainLoop, halves: list[ast.Call], target: Target) -> str | None:
    """Return the code that creates the scaler, with `{torch}` for the module, or None if the autocasts differ."""
    calls = {_scaler_of(source, loop, autocast, target) for autocast in halves}
    return calls.pop() if len(calls) == 1 else None


def _scaler_of(source: PythonSource, loop: PlainLoop, autocast: ast.Call, target: Target) -> str | None:
    namespace, conditions = _namespace(source, autocast, target), _conditions(source, loop, autocast)
    if namespace is None or conditions is None:
        return None
    device = device_of(source, autocast)
    options = [source.segment(device)] if namespace == "amp" and device is not None else []
    options += [f"enabled={' and '.join(conditions)}"] if conditions else []
    return f"{{torch}}.{namespace}.GradScaler({', '.join(options)})"


def _namespace(source: PythonSource, autocast: ast.Call, target: Target) -> str | None:
    """Return the namespace of the GradScaler class.

    It is `cuda.amp` for an autocast of the older API, or for torch before 2.3, and otherwise `amp`. Return None if the
    autocast or its device is unknown.
    """
    if not is_torch(source, autocast) or len(autocast.args) > 2:
        return None
    if is_old_api(source, autocast):
        return "cuda.amp"
    device = device_of(source, autocast)
    if device is not None and target.at_least("torch", (2, 3)) is not False:
        return "amp"
    return "cuda.amp" if constant_of(device) == "cuda" else None


def _conditions(source: PythonSource, loop: PlainLoop, autocast: ast.Call) -> list[str] | None:
    """Return the conditions for autocast in float16.

    Return None if a condition is undefined where the scaler is created.
    """
    old, device, dtype = is_old_api(source, autocast), device_of(source, autocast), dtype_of(autocast)
    switches = [*(autocast.args[:1] if old else []), *(e.value for e in autocast.keywords if e.arg == "enabled")]
    switches = [each for each in switches if constant_of(each) is not True]
    given = switches + ([device] if device is not None else [])
    if any(not _is_constant(source, each) and not _is_known(source, each, loop.made) for each in given):
        return None
    conditions = [source.segment(each) for each in switches]
    if dtype is None or not is_variable(source, dtype):
        return conditions
    if _is_known(source, dtype, loop.made):
        return [*conditions, f"{source.segment(dtype)} == {{torch}}.float16"]
    return conditions if values_are_half(source, dtype) else None


def _is_constant(source: PythonSource, value: ast.expr) -> bool:
    """Return True if the expression contains no name except `torch`.

    The value is then equal at every place in the file.
    """
    torch = name_of(source, "torch")
    return all(node.id == torch for node in ast.walk(value) if isinstance(node, ast.Name))
