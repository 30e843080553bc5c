"""loss-fp32: losses are computed in float32.

What it does
    On a card below compute capability 8.0, casts the inputs of losses of `torch.nn.functional`, and of loss modules
    created in the same file, to float32. The fixer does this if the prediction is in half precision and autocast does
    not cover the loss:

    * The prediction comes from a model or tensor that the file casts to half precision, loads in half precision, or
      shards with a half-precision policy.
    * The prediction is computed under autocast, and the loss is not.

    A prediction that is an argument of a function is traced to the calls of this function in the file. Class weights
    are cast too, and so are targets that are floating-point numbers, as in `mse_loss`. The input of a softmax is cast
    before the softmax.

    All other losses are left unchanged: losses under autocast, which computes them in float32, losses of evaluations
    and of predictions that are computed without gradients, and losses in modules whose callers in other files choose
    the precision. A loss module with weights that is part of a model is reported, because a cast of the model also
    casts these weights.

Why
    Outside autocast, a float16 prediction and a float32 target raise `Found dtype Float but expected Half`. In float16,
    a loss above 1.0 is infinite after it is multiplied by a loss scale of 65536. Autocast does not promote
    `huber_loss`.

Before
    loss = F.mse_loss(prediction, target)

After
    loss = F.mse_loss(prediction.float(), target.float())

What it can break
    Memory: while the loss is computed, the logits exist in float32 and in float16.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re

from fixers.code.draft import Draft
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.sources.autocast_blocks import (
    is_called_under_autocast,
    is_evaluated,
    is_predicted_without_gradient,
    is_under_autocast,
)
from fixers.sources.expressions import tail_of, written
from fixers.sources.half_values import is_half
from fixers.sources.lines import holds_any
from fixers.sources.losses import Loss, losses_of
from fixers.sources.python import PythonSource, reads_python
from fixers.sources.source import Source
from remote.policy.precision import BF16_FROM

name = "loss-fp32"
safety = "safe"
needles = (b"_loss(", b"cross_entropy", b"kl_div", b"Loss(")
below = BF16_FROM
requires: tuple[str, ...] = ()
matches = reads_python

HALF_WORDS = (b"float16", b"fp16", b".half()", b"autocast", b"GradScaler", b"MixedPrecision", b"mixed_precision")
USES_HALF = re.compile(b"|".join(map(re.escape, HALF_WORDS)))
LOSSES = (b"_loss(", b"cross_entropy(", b"kl_div(", b"_logits(", b"Loss(")
SOFTMAXES = ("softmax", "log_softmax", "logsigmoid", "sigmoid")
NOT_PROMOTED = ("huber_loss",)
FLOAT32 = ("torch.float32", "torch.float")
TEMPERATURE = re.compile(r"(?:^|[._])(?:T|tau|temp|temperature)$", re.IGNORECASE)
NEEDS_NO_PARENTHESES = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
WHY = "the loss is computed in float32"


def rewrite(source: Source, target: Target) -> Rewrite:
    """Cast the inputs of every loss to float32 in a file that uses half precision."""
    calls_loss, uses_half = holds_any(source.searched, LOSSES), holds_any(source.searched, HALF_WORDS)
    if not (calls_loss and uses_half and source.python.mentions(USES_HALF)):
        return NOTHING
    draft = Draft(source.python, name)
    widened: dict[ast.expr, None] = {}
    for call, loss in losses_of(draft.source):
        if not _is_needed(draft.source, call, loss):
            continue
        if loss.fixed_dtype:
            if all(_is_float32(draft.source, operand) for operand in loss.operands):
                continue
            message = f"{draft.source.segment(call.func)} has weights in the dtype of the model; left unchanged"
            draft.warn(call, message, hint="cast the weights and inputs of the loss to float32")
            continue
        edited = len(draft.edits)
        for operand in loss.operands:
            _make_float32(draft, operand)
        if len(draft.edits) > edited:
            widened.update(dict.fromkeys(loss.weights))
    for weight in widened:
        _widen(draft, weight)
    return draft.rewrite


def _is_needed(source: PythonSource, call: ast.Call, loss: Loss) -> bool:
    """Return True if the prediction is in half precision and autocast does not promote this loss to float32.

    torch casts a half-precision target to the dtype of the prediction. torch rejects a float32 target with a
    half-precision prediction.
    """
    if is_under_autocast(source, call) or is_called_under_autocast(source, call):
        return _is_huber(call)
    if is_evaluated(source, call) or any(is_predicted_without_gradient(source, each) for each in loss.operands[:1]):
        return False
    return any(is_half(source, each) for each in (*loss.operands[:1], *([call.func] if loss.fixed_dtype else [])))


def _widen(draft: Draft, weight: ast.expr) -> None:
    """Cast class weights to float32. If the expression may be None, the edit keeps None."""
    source = draft.source
    if isinstance(weight, (ast.Name, ast.Attribute)) and not _is_assigned_a_call(source, weight):
        written = source.segment(weight)
        draft.edits.append(source.insert(source.span(weight)[1], f" if {written} is None else {written}.float()", WHY))
    elif isinstance(weight, ast.IfExp):
        for branch in (weight.body, weight.orelse):
            if isinstance(branch, ast.Call):
                _make_float32(draft, branch)
    else:
        _make_float32(draft, weight)


def _is_assigned_a_call(source: PythonSource, weight: ast.expr) -> bool:
    """Return True if only call results are assigned to the name, so that it is not None."""
    if not isinstance(weight, ast.Name):
        return False
    values = [node.value for node in source.names.of_type(ast.Assign) if _assigns(source, node, weight)]
    return bool(values) and all(isinstance(value, ast.Call) for value in values)


def _is_huber(call: ast.Call) -> bool:
    return tail_of(call) in NOT_PROMOTED


def _make_float32(draft: Draft, operand: ast.expr) -> None:
    source = draft.source
    if isinstance(operand, ast.Call) and tail_of(operand) in SOFTMAXES:
        inner = _softmaxed(source, operand)
        if inner is not None:
            _make_float32(draft, inner)
        return
    if _is_float32(source, operand) or isinstance(operand, ast.Constant):
        return
    start, end = source.span(operand)
    if isinstance(operand, NEEDS_NO_PARENTHESES):
        draft.edits.append(source.insert(end, ".float()", WHY))
    else:
        draft.edits.append(source.insert(start, "(", WHY))
        draft.edits.append(source.insert(end, ").float()", WHY))


def _softmaxed(source: PythonSource, call: ast.Call) -> ast.expr | None:
    """Return the input of a softmax, which is called as a function or a method, or None for other expressions."""
    if (source.names.meaning(call.func) or "").startswith("torch."):
        return call.args[0] if call.args and not isinstance(call.args[0], ast.Starred) else None
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _is_float32(source: PythonSource, operand: ast.expr) -> bool:
    """Return True for a cast to float32, its softmax, a quotient of it, or a variable with one of these values."""
    match operand:
        case ast.Call() if tail_of(operand) in SOFTMAXES and not _casts(source, operand):
            inner = _softmaxed(source, operand)
            return inner is not None and _is_float32(source, inner)
        case ast.Call():
            return _casts(source, operand)
        case ast.BinOp(op=ast.Mult() | ast.Div(), left=left, right=right):
            return _is_float32(source, left) and (isinstance(right, ast.Constant) or _is_temperature(source, right))
        case ast.Name():
            values = [node.value for node in source.names.of_type(ast.Assign) if _assigns(source, node, operand)]
            return bool(values) and isinstance(values[-1], (ast.Call, ast.BinOp)) and _is_float32(source, values[-1])
    return False


def _is_temperature(source: PythonSource, factor: ast.expr) -> bool:
    return TEMPERATURE.search(written(source, factor)) is not None


def _casts(source: PythonSource, call: ast.Call) -> bool:
    tail = tail_of(call)
    if tail == "float" and isinstance(call.func, ast.Attribute):
        return True
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    if any(source.names.meaning(value) in FLOAT32 for value in values):
        return True
    inner = call.func.value if isinstance(call.func, ast.Attribute) else None
    keeps_dtype = tail in ("view", "reshape", "transpose", "permute", "squeeze", "unsqueeze", "contiguous", "flatten")
    return keeps_dtype and isinstance(inner, ast.Call) and _casts(source, inner)


def _assigns(source: PythonSource, node: ast.Assign, operand: ast.Name) -> bool:
    targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
    same = source.names.function(node) is source.names.function(operand)
    return operand.id in targets and same and node.lineno < operand.lineno
