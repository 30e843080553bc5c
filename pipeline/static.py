"""The first depth of verify: what code and config ask for, judged against the precision plan without running anything.

Only what a fixer does not put right by itself is told: folk fixes that hide an error, and orders that cannot work.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fixers.site import Tree
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.precision import Mode, PrecisionPlan

HALF_NAMES = ("float16", "half")
CASTS_UP = ("cast_mixed_precision_params", "prepare_model_for_kbit_training", "get_peft_model")


@dataclass(frozen=True)
class Module:
    """One parsed Python file and the calls in it."""

    path: str
    tree: ast.Module
    calls: tuple[ast.Call, ...]


Rule = Callable[[Module, PrecisionPlan], Iterator[Finding]]


def judge_static(tree: Tree, plan: PrecisionPlan) -> Report:
    """Findings over every Python file of the tree that parses; the plan's own come first."""
    findings = list(plan.findings)
    for path in sorted(tree.paths()):
        if path.endswith(".py"):
            module = _parse(path, tree.read(path))
            if module is not None:
                findings.extend(finding for rule in RULES for finding in rule(module, plan))
    return Report(tuple(findings))


def _parse(path: str, source: bytes) -> Module | None:
    """None where the file does not parse, which the fixers tell, or has nothing to do with torch."""
    if b"torch" not in source and b"transformers" not in source:
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    return Module(path, tree, tuple(node for node in ast.walk(tree) if isinstance(node, ast.Call)))


def _no_clipping(module: Module, plan: PrecisionPlan) -> Iterator[Finding]:
    """`max_grad_norm=None` is passed on as advice against the scaler's ValueError, which it cannot prevent."""
    if plan.mode is not Mode.FP16_MIXED:
        return
    for call in module.calls:
        value = _keyword(call, "max_grad_norm")
        if isinstance(value, ast.Constant) and value.value is None:
            yield _error(
                "folk-no-clipping",
                "max_grad_norm=None cannot stop `Attempting to unscale FP16 gradients`: scaler.step unscales too",
                module,
                value,
                "take it out; pipeline fix --only trainable-fp32",
            )


def _autocast_off(module: Module, plan: PrecisionPlan) -> Iterator[Finding]:
    """fp16=False, or a scaler that is switched off, beside weights in half: training in pure float16."""
    if plan.mode is not Mode.FP16_MIXED or not _loads_half(module):
        return
    for call in module.calls:
        for keyword, named in (("fp16", ""), ("enabled", "GradScaler"), ("enabled", "autocast")):
            value = _keyword(call, keyword)
            if (not named or _name(call.func) == named) and isinstance(value, ast.Constant) and value.value is False:
                yield _error(
                    "folk-autocast-off",
                    "mixed precision is off while weights are float16: Adam in pure float16 trains at loss 0.0",
                    module,
                    value,
                    "switch it on; pipeline fix --only trainable-fp32",
                )


def _unscale_patched(module: Module, plan: PrecisionPlan) -> Iterator[Finding]:
    """The scaler is made to accept float16 gradients, so that float16 weights are trained after all."""
    for node in ast.walk(module.tree):
        assigned = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Attribute) and target.attr == "_unscale_grads_" for target in assigned):
            yield _error(
                "folk-unscale-patched",
                "GradScaler._unscale_grads_ is replaced: the check it makes is what protects float16 weights",
                module,
                node,
                "take it out; pipeline fix --only trainable-fp32",
            )


def _clip_before_unscale(module: Module, plan: PrecisionPlan) -> Iterator[Finding]:
    """A file that makes a scaler and clips by hand, and never unscales before."""
    names = {_name(call.func) for call in module.calls}
    if "GradScaler" not in names or "unscale_" in names:
        return
    for call in module.calls:
        if _name(call.func) == "clip_grad_norm_" and not _is_accelerators(call):
            yield _error(
                "clip-before-unscale",
                "gradients are clipped while they still carry the loss scale, so nearly all of each is cut off",
                module,
                call,
                "scaler.unscale_(optimizer) before it",
            )


def _reentrant(module: Module, plan: PrecisionPlan) -> Iterator[Finding]:
    """Reentrant checkpointing was asked for by name and nothing makes the inputs require a gradient."""
    if any(
        _name(call.func) in ("enable_input_require_grads", "prepare_model_for_kbit_training") for call in module.calls
    ):
        return
    for node in ast.walk(module.tree):
        value = _keyword(node, "use_reentrant") if isinstance(node, ast.Call) else _entry(node, "use_reentrant")
        if isinstance(value, ast.Constant) and value.value is True:
            yield _warning(
                "checkpoint-reentrant",
                "reentrant checkpointing hands no gradient to adapters behind frozen embeddings",
                module,
                value,
                "use_reentrant=False",
            )


def _trained_half(module: Module, plan: PrecisionPlan) -> Iterator[Finding]:
    """Everything is loaded in float16 and trained under a scaler, and nothing widens what is trained."""
    names = {_name(call.func) for call in module.calls}
    scaled = any(_makes_scaler(call) or _is_true(_keyword(call, "fp16")) for call in module.calls)
    widened = names & {*CASTS_UP, "float"} or any(
        isinstance(node, ast.Attribute) and node.attr == "float32" for node in ast.walk(module.tree)
    )
    if plan.mode is Mode.FP16_MIXED and scaled and _loads_half(module) and not widened:
        half = next(_halves(module))
        yield _warning(
            "trainable-dtype",
            "weights are loaded in float16 and trained under a GradScaler, and nothing casts them to float32",
            module,
            half,
            "pipeline fix --only trainable-fp32",
        )


RULES: tuple[Rule, ...] = (
    _no_clipping,
    _autocast_off,
    _unscale_patched,
    _clip_before_unscale,
    _reentrant,
    _trained_half,
)


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _entry(node: ast.AST, name: str) -> ast.expr | None:
    """The value of that key in a dict display."""
    if not isinstance(node, ast.Dict):
        return None
    pairs = zip(node.keys, node.values, strict=True)
    return next((value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name), None)


def _name(function: ast.expr) -> str:
    """The last part of what is called."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _makes_scaler(call: ast.Call) -> bool:
    enabled = _keyword(call, "enabled")
    return _name(call.func) == "GradScaler" and not (isinstance(enabled, ast.Constant) and enabled.value is False)


def _is_true(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def _is_accelerators(call: ast.Call) -> bool:
    """accelerator.clip_grad_norm_ unscales first."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and "accelerator" in owner.id.lower()


def _halves(module: Module) -> Iterator[ast.expr]:
    """Places where weights become float16: `.half()`, `.to(torch.float16)`, `dtype=torch.float16`."""
    for call in module.calls:
        if _name(call.func) == "half" and isinstance(call.func, ast.Attribute) and not call.args:
            yield call
        given = [_keyword(call, "dtype"), _keyword(call, "torch_dtype")] if _name(call.func) != "autocast" else []
        for value in [*given, *(call.args if _name(call.func) == "to" else [])]:
            if isinstance(value, ast.Attribute) and value.attr in HALF_NAMES:
                yield value


def _loads_half(module: Module) -> bool:
    return next(_halves(module), None) is not None


def _error(check: str, message: str, module: Module, node: ast.AST, hint: str) -> Finding:
    return Finding(check, Severity.ERROR, message, _where(module, node), hint, ExitCode.PRECISION)


def _warning(check: str, message: str, module: Module, node: ast.AST, hint: str) -> Finding:
    return Finding(check, Severity.WARNING, message, _where(module, node), hint)


def _where(module: Module, node: ast.AST) -> str:
    return f"{module.path}:{getattr(node, 'lineno', 1)}"
