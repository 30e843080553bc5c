"""Static checks of verify: compare the code with the precision plan, without running the code.

The checks detect faults that no fixer repairs: popular fixes that only hide an error, and calls in the wrong order.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from fixers.frame.site import Tree
from pipeline.judgements.calls import (
    Module,
    casts_to_float16,
    casts_to_float32,
    creates_scaler,
    entry_of,
    float16_casts,
    is_accelerator_method,
    is_literal,
    keyword_of,
    last_name,
    parse_module,
)
from pipeline.judgements.half_weights import judge_half_weights
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.precision import Mode, PrecisionPlan

CASTS_UP = ("cast_mixed_precision_params", "prepare_model_for_kbit_training", "get_peft_model")
CLIPPED_SCALED = "clip-before-unscale"
CLIPS = ("clip_grad_norm_", "clip_grad_value_")
TRAINS = {"train", "backward", "fit", "step", "training_step"}
DOUBTS_OF_FIXERS = {"trainable-fp32": "trainable-dtype"}
"""Fixers that warn about code that they cannot analyse, with the check of the proof that tests this code."""

MAKES_INPUTS_REQUIRE_GRAD = {"enable_input_require_grads", "prepare_model_for_kbit_training"}

Places = Iterator[ast.AST]


@dataclass(frozen=True)
class Rule:
    """A rule that reports a finding for every node that `places` yields.

    With `only_in`, the rule applies only in this precision mode.
    """

    check: str
    severity: Severity
    places: Callable[[Module], Places]
    message: str
    hint: str
    only_in: Mode | None = None


def judge_static(tree: Tree, plan: PrecisionPlan) -> Report:
    """Return the findings of the precision plan, of each valid Python file, and of float16 weights across files."""
    findings = list(plan.findings)
    rules = [rule for rule in RULES if rule.only_in in (None, plan.mode)]
    unscaled = False
    for path in sorted(tree.paths()):
        if path.endswith(".py"):
            module = parse_module(path, tree.read(path))
            if module is not None:
                findings.extend(_finding(rule, module, node) for rule in rules for node in rule.places(module))
                unscaled = unscaled or "unscale_" in module.called
    findings += _half_weights(tree, plan, {finding.where for finding in findings})
    return Report(tuple(finding for finding in findings if not (unscaled and finding.check == CLIPPED_SCALED)))


def _half_weights(tree: Tree, plan: PrecisionPlan, known: set[str]) -> list[Finding]:
    """Return the findings of float16 weights, except at locations that a rule has reported."""
    found = judge_half_weights(tree) if plan.mode is Mode.FP16_MIXED else ()
    return [finding for finding in found if finding.where not in known]


def without_refuted(static: Report, proof: Report) -> Report:
    """Return the static report without the warnings that the proof refuted."""
    passed = {finding.check for finding in proof.findings if finding.severity is Severity.INFO}
    doubts = {rule.check: rule.check for rule in RULES if rule.severity is Severity.WARNING} | DOUBTS_OF_FIXERS
    settled = {doubt for doubt, check in doubts.items() if check in passed}
    left = (one for one in static.findings if one.check not in settled or one.severity is not Severity.WARNING)
    return Report(tuple(left), static.facts)


def _finding(rule: Rule, module: Module, node: ast.AST) -> Finding:
    where = f"{module.path}:{getattr(node, 'lineno', 1)}"
    code = ExitCode.PRECISION if rule.severity is Severity.ERROR else ExitCode.OK
    return Finding(rule.check, rule.severity, rule.message, where, rule.hint, code)


def _no_clipping(module: Module) -> Places:
    """Yield `max_grad_norm=None`.

    It is popular advice against the scaler's ValueError, but does not prevent the error.
    """
    values = (keyword_of(call, "max_grad_norm") for call in module.calls)
    return (value for value in values if is_literal(value, None))


def _autocast_disabled(module: Module) -> Places:
    """Yield fp16=False, or a disabled scaler or autocast, in a file that trains float16 weights.

    Autocast may be disabled for one part of a file, or around a cast to float32, because a loss or a norm is often
    computed in float32.
    """
    if not (casts_to_float16(module) and module.called & TRAINS):
        return
    islands = set(_partial_disables(module))
    for call in module.calls:
        for keyword, named in (("fp16", ""), ("enabled", "GradScaler"), ("enabled", "autocast")):
            value = keyword_of(call, keyword)
            if is_literal(value, False) and call not in islands and (not named or last_name(call.func) == named):
                yield value


def _partial_disables(module: Module) -> Iterator[ast.Call]:
    """Yield the calls that disable autocast for only a part of the file."""
    casts = [call for call in module.calls if last_name(call.func) == "autocast"]
    if any(not is_literal(keyword_of(call, "enabled"), False) for call in casts):
        yield from casts
    for node in ast.walk(module.tree):
        if isinstance(node, ast.With) and casts_to_float32(node):
            yield from (item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call))


def _unscale_patched(module: Module) -> Places:
    """Yield assignments to GradScaler._unscale_grads_. Such an assignment makes the scaler accept float16 gradients."""
    for node in ast.walk(module.tree):
        assigned = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Attribute) and target.attr == "_unscale_grads_" for target in assigned):
            yield node


def _clip_before_unscale(module: Module) -> Places:
    """Yield clipping calls in a file that creates a scaler.

    `judge_static` drops them if the project calls `unscale_`.
    """
    if "GradScaler" in module.called:
        for call in module.calls:
            if last_name(call.func) in CLIPS and not is_accelerator_method(call):
                yield call


def _reentrant(module: Module) -> Places:
    """Yield `use_reentrant=True` in a file with no call that makes the inputs require a gradient."""
    if module.called & MAKES_INPUTS_REQUIRE_GRAD:
        return
    for node in ast.walk(module.tree):
        value = keyword_of(node, "use_reentrant") if isinstance(node, ast.Call) else entry_of(node, "use_reentrant")
        if is_literal(value, True):
            yield value


def _trained_half(module: Module) -> Places:
    """Yield the first float16 cast in a file that trains with a scaler and has no cast to float32."""
    scaled = any(creates_scaler(call) or is_literal(keyword_of(call, "fp16"), True) for call in module.calls)
    if scaled and casts_to_float16(module) and not (module.called & set(CASTS_UP) or casts_to_float32(module.tree)):
        yield next(float16_casts(module))


RULES = (
    Rule(
        "folk-no-clipping",
        Severity.ERROR,
        _no_clipping,
        "max_grad_norm=None cannot stop `Attempting to unscale FP16 gradients`: scaler.step also unscales",
        "remove max_grad_norm=None; pipeline fix --only trainable-fp32",
        only_in=Mode.FP16_MIXED,
    ),
    Rule(
        "folk-autocast-off",
        Severity.ERROR,
        _autocast_disabled,
        "mixed precision is disabled while weights are float16: pure float16 with Adam trains at loss 0.0",
        "enable mixed precision; pipeline fix --only trainable-fp32",
        only_in=Mode.FP16_MIXED,
    ),
    Rule(
        "folk-unscale-patched",
        Severity.ERROR,
        _unscale_patched,
        "GradScaler._unscale_grads_ is replaced, which disables its check for float16 gradients",
        "remove the assignment; pipeline fix --only trainable-fp32",
    ),
    Rule(
        CLIPPED_SCALED,
        Severity.WARNING,
        _clip_before_unscale,
        "gradients are clipped before they are unscaled: clipping reduces them to almost nothing",
        "call scaler.unscale_(optimizer) before clipping",
    ),
    Rule(
        "checkpoint-reentrant",
        Severity.WARNING,
        _reentrant,
        "with frozen embeddings, reentrant checkpointing passes no gradient to the adapters",
        "use_reentrant=False",
    ),
    Rule(
        "trainable-dtype",
        Severity.WARNING,
        _trained_half,
        "weights are loaded in float16, trained with a GradScaler, and never cast to float32",
        "pipeline fix --only trainable-fp32",
        only_in=Mode.FP16_MIXED,
    ),
)
