"""The first depth of verify: what code and config ask for, judged against the precision plan without running anything.

Only what a fixer does not put right by itself is told: folk fixes that hide an error, and orders that cannot work.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fixers.frame.site import Tree
from pipeline.judgements.calls import (
    Module,
    entry_of,
    halves,
    is_accelerators,
    is_literal,
    keyword_of,
    last_name,
    loads_half,
    makes_scaler,
    parse_module,
    widens,
)
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.precision import Mode, PrecisionPlan

CASTS_UP = ("cast_mixed_precision_params", "prepare_model_for_kbit_training", "get_peft_model")
CLIPPED_SCALED = "clip-before-unscale"
CLIPS = ("clip_grad_norm_", "clip_grad_value_")
TRAINS = {"train", "backward", "fit", "step", "training_step"}
DOUBTS_OF_FIXERS = {"trainable-fp32": "trainable-dtype"}
"""By the fixer that warns of code it cannot follow, the check of the proof that sees what the code does."""

MAKES_INPUTS_REQUIRE_GRAD = {"enable_input_require_grads", "prepare_model_for_kbit_training"}

Places = Iterator[ast.AST]


@dataclass(frozen=True)
class Rule:
    """What is told of every place in a file that `places` finds; `only_in`: the one mode where it is wrong."""

    check: str
    severity: Severity
    places: Callable[[Module], Places]
    message: str
    hint: str
    only_in: Mode | None = None


def judge_static(tree: Tree, plan: PrecisionPlan) -> Report:
    """Findings over every Python file of the tree that parses; the plan's own come first."""
    findings = list(plan.findings)
    rules = [rule for rule in RULES if rule.only_in in (None, plan.mode)]
    unscaled = False
    for path in sorted(tree.paths()):
        if path.endswith(".py"):
            module = parse_module(path, tree.read(path))
            if module is not None:
                findings.extend(_told(rule, module, node) for rule in rules for node in rule.places(module))
                unscaled = unscaled or "unscale_" in module.called
    return Report(tuple(finding for finding in findings if not (unscaled and finding.check == CLIPPED_SCALED)))


def refuted(asked: Report, seen: Report) -> Report:
    """What code seems to ask for, and what a fixer could not read in it, without what the proof then saw to be well."""
    well = {finding.check for finding in seen.findings if finding.severity is Severity.INFO}
    doubts = {rule.check: rule.check for rule in RULES if rule.severity is Severity.WARNING} | DOUBTS_OF_FIXERS
    settled = {doubt for doubt, check in doubts.items() if check in well}
    left = (one for one in asked.findings if one.check not in settled or one.severity is not Severity.WARNING)
    return Report(tuple(left), asked.facts)


def _told(rule: Rule, module: Module, node: ast.AST) -> Finding:
    where = f"{module.path}:{getattr(node, 'lineno', 1)}"
    code = ExitCode.PRECISION if rule.severity is Severity.ERROR else ExitCode.OK
    return Finding(rule.check, rule.severity, rule.message, where, rule.hint, code)


def _no_clipping(module: Module) -> Places:
    """`max_grad_norm=None` is passed on as advice against the scaler's ValueError, which it cannot prevent."""
    values = (keyword_of(call, "max_grad_norm") for call in module.calls)
    return (value for value in values if is_literal(value, None))


def _autocast_off(module: Module) -> Places:
    """fp16=False, or a scaler that is switched off, beside weights in half: training in pure float16.

    Autocast that is off for one part, the rest of the file having it on, or around what is widened, is how a loss or
    a norm is computed in float32.
    """
    if not (loads_half(module) and module.called & TRAINS):
        return
    islands = set(_islands(module))
    for call in module.calls:
        for keyword, named in (("fp16", ""), ("enabled", "GradScaler"), ("enabled", "autocast")):
            value = keyword_of(call, keyword)
            if is_literal(value, False) and call not in islands and (not named or last_name(call.func) == named):
                yield value


def _islands(module: Module) -> Iterator[ast.Call]:
    """Calls that switch autocast off for a part."""
    casts = [call for call in module.calls if last_name(call.func) == "autocast"]
    if any(not is_literal(keyword_of(call, "enabled"), False) for call in casts):
        yield from casts
    for node in ast.walk(module.tree):
        if isinstance(node, ast.With) and widens(node):
            yield from (item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call))


def _unscale_patched(module: Module) -> Places:
    """The scaler is made to accept float16 gradients, so that float16 weights are trained after all."""
    for node in ast.walk(module.tree):
        assigned = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Attribute) and target.attr == "_unscale_grads_" for target in assigned):
            yield node


def _clip_before_unscale(module: Module) -> Places:
    """A file that makes a scaler and clips by hand; whether anything in the project unscales is asked of all files."""
    if "GradScaler" in module.called:
        for call in module.calls:
            if last_name(call.func) in CLIPS and not is_accelerators(call):
                yield call


def _reentrant(module: Module) -> Places:
    """Reentrant checkpointing was asked for by name and nothing makes the inputs require a gradient."""
    if module.called & MAKES_INPUTS_REQUIRE_GRAD:
        return
    for node in ast.walk(module.tree):
        value = keyword_of(node, "use_reentrant") if isinstance(node, ast.Call) else entry_of(node, "use_reentrant")
        if is_literal(value, True):
            yield value


def _trained_half(module: Module) -> Places:
    """Everything is loaded in float16 and trained under a scaler, and nothing widens what is trained."""
    scaled = any(makes_scaler(call) or is_literal(keyword_of(call, "fp16"), True) for call in module.calls)
    if scaled and loads_half(module) and not (module.called & set(CASTS_UP) or widens(module.tree)):
        yield next(halves(module))


RULES = (
    Rule(
        "folk-no-clipping",
        Severity.ERROR,
        _no_clipping,
        "max_grad_norm=None cannot stop `Attempting to unscale FP16 gradients`: scaler.step unscales too",
        "take it out; pipeline fix --only trainable-fp32",
        only_in=Mode.FP16_MIXED,
    ),
    Rule(
        "folk-autocast-off",
        Severity.ERROR,
        _autocast_off,
        "mixed precision is off while weights are float16: Adam in pure float16 trains at loss 0.0",
        "switch it on; pipeline fix --only trainable-fp32",
        only_in=Mode.FP16_MIXED,
    ),
    Rule(
        "folk-unscale-patched",
        Severity.ERROR,
        _unscale_patched,
        "GradScaler._unscale_grads_ is replaced: the check it makes is what protects float16 weights",
        "take it out; pipeline fix --only trainable-fp32",
    ),
    Rule(
        CLIPPED_SCALED,
        Severity.WARNING,
        _clip_before_unscale,
        "gradients are clipped, and nothing in the project unscales them first: nearly all of each would be cut off",
        "scaler.unscale_(optimizer) before it",
    ),
    Rule(
        "checkpoint-reentrant",
        Severity.WARNING,
        _reentrant,
        "reentrant checkpointing hands no gradient to adapters behind frozen embeddings",
        "use_reentrant=False",
    ),
    Rule(
        "trainable-dtype",
        Severity.WARNING,
        _trained_half,
        "weights are loaded in float16 and trained under a GradScaler, and nothing casts them to float32",
        "pipeline fix --only trainable-fp32",
        only_in=Mode.FP16_MIXED,
    ),
)
