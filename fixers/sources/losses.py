"""Find calls of torch losses, with their inputs and class weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.sources.python import PythonSource
from fixers.sources.training_setup import casts_to_half
from remote.protocol.dataclass import dataclass

BOTH = frozenset(
    {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss", "soft_margin_loss"}
    | {"binary_cross_entropy_with_logits", "binary_cross_entropy"}
)
FIRST = frozenset({"cross_entropy", "nll_loss", "ctc_loss", "multi_margin_loss"})
MODULES = {
    "MSELoss": BOTH,
    "L1Loss": BOTH,
    "SmoothL1Loss": BOTH,
    "HuberLoss": BOTH,
    "KLDivLoss": BOTH,
    "BCEWithLogitsLoss": BOTH,
    "BCELoss": BOTH,
    "CrossEntropyLoss": FIRST,
    "NLLLoss": FIRST,
    "CTCLoss": FIRST,
}
FUNCTIONAL = "torch.nn.functional."
OPERANDS = ("input", "target")
WEIGHTS = ("weight", "pos_weight")
WEIGHT_AT = {"cross_entropy": 2, "nll_loss": 2, "binary_cross_entropy": 2, "binary_cross_entropy_with_logits": 2}
TAKES_WEIGHT_FIRST = ("CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss")
MOVES = ("to", "cuda", "cpu")


@dataclass(frozen=True)
class Loss:
    """The inputs and the class weights of a loss. Inputs and weights must have the same dtype.

    `fixed_dtype`: the weights belong to a module that is part of a model or is cast later.
    """

    operands: list[ast.expr]
    weights: list[ast.expr]
    fixed_dtype: bool = False


@dataclass(frozen=True)
class Module:
    """A loss module: the assignment and constructor call that create it, and which operands must be float32."""

    assignment: ast.Assign
    made: ast.Call
    kind: frozenset[str]


def losses_of(source: PythonSource) -> Iterator[tuple[ast.Call, Loss]]:
    """Yield every call of a loss of `torch.nn.functional`, or of a loss module created in the same file."""
    modules = _loss_modules(source)
    for call in source.names.of_type(ast.Call):
        loss = _loss_of(source, call, modules)
        if loss is not None:
            yield call, loss


def _loss_modules(source: PythonSource) -> dict[str, list[Module]]:
    """Return all assignments of loss modules by name, in file order."""
    held: dict[str, list[Module]] = {}
    for node in source.names.of_type(ast.Assign):
        made = _constructor_call(source, node.value)
        kind = _kind(source, made) if made is not None else None
        if made is not None and kind is not None:
            for target in node.targets:
                held.setdefault(source.segment(target), []).append(Module(node, made, kind))
    return held


def _constructor_call(source: PythonSource, value: ast.expr) -> ast.Call | None:
    """Return the constructor call inside calls such as `.to(device)`, or None if a call casts to half precision."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in MOVES:
        if casts_to_half(source, value):
            return None
        value = value.func.value
    return value if isinstance(value, ast.Call) else None


def _kind(source: PythonSource, made: ast.Call) -> frozenset[str] | None:
    meaning = source.names.meaning(made.func) or ""
    return MODULES.get(meaning.rpartition(".")[2]) if meaning.startswith("torch.nn.") else None


def _called(source: PythonSource, call: ast.Call, modules: dict[str, list[Module]]) -> list[Module]:
    """Return the loss modules that the call may refer to.

    If the function assigns a module before the call, the last of these modules is returned. Otherwise, all modules of
    the class are returned, or all modules of the file if the class has none.
    """
    held = modules.get(source.segment(call.func), [])
    held = [each for each in held if _class_of(source, each.assignment) is _class_of(source, call)] or held
    function = source.names.function(call)
    before = [
        each
        for each in held
        if source.names.function(each.assignment) is function and each.assignment.lineno < call.lineno
    ]
    return before[-1:] or held


def _loss_of(source: PythonSource, call: ast.Call, modules: dict[str, list[Module]]) -> Loss | None:
    function = (source.names.meaning(call.func) or "").removeprefix(FUNCTIONAL)
    if function in BOTH | FIRST and source.names.meaning(call.func) == FUNCTIONAL + function:
        at = WEIGHT_AT.get(function)
        positional = [call.args[at]] if at is not None and at < len(call.args) else []
        return _loss(call, function in BOTH, [*positional, *_weights(call)])
    if isinstance(call.func, ast.Call):
        kind = _kind(source, call.func)
        return _loss(call, kind is BOTH, _weights_of(source, call.func)) if kind is not None else None
    called = _called(source, call, modules)
    if not called:
        return None
    weights = [weight for each in called for weight in _weights_of(source, each.made)]
    fixed_dtype = bool(weights) and (_is_part_of_model(source, call.func) or _is_cast_later(source, call.func))
    return _loss(call, all(each.kind is BOTH for each in called), weights, fixed_dtype=fixed_dtype)


def _loss(call: ast.Call, both: bool, weights: list[ast.expr], *, fixed_dtype: bool = False) -> Loss | None:
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    inputs = [call.args[at] if at < len(call.args) else named.get(OPERANDS[at]) for at in range(2 if both else 1)]
    operands = [each for each in inputs if each is not None]
    return Loss(operands, [each for each in weights if not isinstance(each, ast.Constant)], fixed_dtype)


def _weights(call: ast.Call) -> list[ast.expr]:
    return [keyword.value for keyword in call.keywords if keyword.arg in WEIGHTS]


def _weights_of(source: PythonSource, made: ast.Call) -> list[ast.expr]:
    first = (source.names.meaning(made.func) or "").rpartition(".")[2] in TAKES_WEIGHT_FIRST
    given = [*(made.args[:1] if first else []), *_weights(made)]
    return [each for each in given if not isinstance(each, ast.Constant)]


def _is_part_of_model(source: PythonSource, module: ast.expr) -> bool:
    """Return True for an attribute of a class with bases: a cast of the model also casts the weights of the loss."""
    inside = _class_of(source, module) if isinstance(module, ast.Attribute) else None
    return inside is not None and bool(inside.bases)


def _class_of(source: PythonSource, node: ast.AST) -> ast.ClassDef | None:
    return next((above for above in source.names.ancestors(node) if isinstance(above, ast.ClassDef)), None)


def _is_cast_later(source: PythonSource, module: ast.expr) -> bool:
    """Return True for `criterion.half()` and `criterion.to(torch.float16)`."""
    written = source.segment(module)
    calls = (each for each in source.names.of_type(ast.Call) if isinstance(each.func, ast.Attribute))
    return any(
        source.segment(each.func.value) == written and (each.func.attr == "half" or casts_to_half(source, each))
        for each in calls
        if isinstance(each.func, ast.Attribute) and each.func.attr in ("half", "to")
    )
