"""Decide from the context of a use of bfloat16 whether it is changed, reported or left unchanged."""

from __future__ import annotations

import ast
from collections.abc import Callable
from enum import Enum
from typing import Any

from fixers.code.bf16_forms.branches import (
    OTHER_DEVICES,
    excludes_other_device,
    is_flag_of_trainer,
    is_selected_branch,
    is_selected_choice,
    is_without_fp16,
    selects_other_device,
)
from fixers.code.bf16_forms.chosen_branches import is_rest_of_pair
from fixers.code.bf16_forms.reasons_to_keep import STATED_REASON, is_explained, reason_to_keep
from fixers.code.flash_fallbacks import selects_flash_in_mixed_training
from fixers.sources.expressions import tail_of
from fixers.sources.gates import NAMES_BF16, is_gated, names_bf16, names_bf16_in_pattern, tests_card
from fixers.sources.python import PythonSource
from fixers.sources.readers.displays import DECLARES, is_table_of_dtypes
from remote.protocol.dataclass import dataclass

HALVES = ("torch.float16", "torch.half")
HALF_WORDS = ("fp16", "float16", "half", "16")
FLOATS = ("torch.float32", "torch.float")
OTHER_DTYPES = (*HALVES, *FLOATS, "torch.float64", "torch.double", "torch.int8")
SAFETENSORS = ("F32", "F16", "F64")
OF_TRL = ("peft_module_casting_to_bf16",)
"""Functions of TRL, and of copied TRL modules, that run only if the bf16 switch is on."""
OTHER_WORDS = frozenset({"float16", "fp16", "half", "float32", "fp32", "float", "no", "auto", "fp8", "32", "16"})


class Verdict(Enum):
    """The decision about one use of bfloat16: change it, report it, or leave it unchanged."""

    ACT = "act"
    WARN = "warn"
    NEVER = "never touch"


@dataclass(frozen=True)
class Judged:
    """A verdict and its message, which is the warning or the reason for leaving the place unchanged."""

    verdict: Verdict
    message: str = ""


ACT = Judged(Verdict.ACT)
NEVER = Judged(Verdict.NEVER)
PURE = "this code runs only with pure_bf16: float16 weights cannot be trained without float32 copies and a loss scale"
OF_TRAINER = "this code runs only with --bf16, and the fixers replace --bf16 with --fp16 in commands"
WITHOUT_FP16 = "this code runs only without --fp16; with --fp16, the code selects float16"
LOADS_FLOAT32 = Judged(
    Verdict.WARN, "with --fp16 this loads float32 weights, which need twice the memory: select fp16 here"
)
FALLS_BACK_TO_FP32 = Judged(
    Verdict.WARN, "this selects bfloat16 or float32; float32 needs twice the memory; select float16 for this card"
)


def judge_place(source: PythonSource, node: ast.expr) -> Judged:
    """Return the verdict for a use of bfloat16. Judge the syntax nodes around it, starting with the innermost."""
    if is_gated(source, node) and not _falls_back(source, node):
        return NEVER
    child: ast.AST = node
    for above in source.names.ancestors(node):
        judged = _judge_parent(source, above, child)
        if judged is not None:
            return judged
        child = above
    if reason := reason_to_keep(source, node):
        return Judged(Verdict.NEVER, reason)
    return Judged(Verdict.WARN, STATED_REASON) if is_explained(source, node) else ACT


def _judge_parent(source: PythonSource, parent: ast.AST, child: ast.AST) -> Judged | None:
    if isinstance(parent, NEVER_INSIDE):
        return NEVER
    judge = PARENTS.get(type(parent))
    return judge(source, parent, child) if judge is not None else None


def _judge_display(source: PythonSource, parent: ast.List | ast.Tuple | ast.Set, child: ast.AST) -> Judged | None:
    return NEVER if _is_row_of_list(source, parent, child) or _is_spelling(source, parent, child) else None


def _judge_choice(source: PythonSource, parent: ast.IfExp, child: ast.AST) -> Judged | None:
    if child is parent.test:
        return None
    if child is parent.body and (_is_row_of_choices(source, parent) or selects_other_device(parent.test)):
        return NEVER
    if is_selected_choice(source, parent, child) or (child is parent.orelse and excludes_other_device(parent.test)):
        return NEVER
    if child is parent.orelse and is_without_fp16(source, parent.test, parent.body):
        return Judged(Verdict.NEVER, WITHOUT_FP16)
    if child is parent.body and is_flag_of_trainer(source, parent.test):
        return LOADS_FLOAT32 if isinstance(parent.orelse, ast.Constant) else Judged(Verdict.NEVER, OF_TRAINER)
    return _judge_other(source, parent, parent.orelse if child is parent.body else parent.body)


def _judge_other(source: PythonSource, parent: ast.IfExp, other: ast.expr) -> Judged | None:
    """Judge `bfloat16 if test else other` by the other value. None means that another rule decides."""
    if isinstance(other, ast.Constant) and other.value in SAFETENSORS:
        return NEVER
    is_selected = _is_switch(source, parent.test) or selects_flash_in_mixed_training(source, parent.test)
    return FALLS_BACK_TO_FP32 if _is_float32(source, other) and not is_selected else None


def _judge_branch(source: PythonSource, parent: ast.If, child: ast.AST) -> Judged | None:
    if child not in parent.body:
        if child in parent.orelse and is_without_fp16(source, parent.test, *parent.body):
            return Judged(Verdict.NEVER, WITHOUT_FP16)
        is_other = child in parent.orelse and excludes_other_device(parent.test)
        return NEVER if is_other or is_rest_of_pair(source, parent, child) else None
    if "pure_bf16" in source.segment(parent.test):
        return Judged(Verdict.NEVER, PURE)
    if is_flag_of_trainer(source, parent.test):
        return Judged(Verdict.NEVER, OF_TRAINER)
    if selects_other_device(parent.test) or names_bf16(source, parent.test):
        return NEVER
    return NEVER if is_selected_branch(source, parent, child) else None


def _judge_case(source: PythonSource, parent: ast.match_case, child: ast.AST) -> Judged | None:
    return NEVER if child in parent.body and names_bf16_in_pattern(parent) else None


def _judge_handler(source: PythonSource, parent: ast.ExceptHandler, child: ast.AST) -> Judged | None:
    """Leave a fallback to bfloat16 unchanged, unless the statements that may fail select bfloat16 too."""
    block = source.names.parent(parent)
    tried = block.body if isinstance(block, ast.Try) else []
    return None if any(NAMES_BF16.search(source.segment(each)) for each in tried) else NEVER


def _judge_subscript(source: PythonSource, parent: ast.Subscript, child: ast.AST) -> Judged | None:
    """Leave an index (`x[torch.bfloat16]`) and an indexed literal (`{"bf16": torch.bfloat16}[name]`) unchanged."""
    return None if isinstance(child, ast.Call) and child is parent.value else NEVER


def _judge_annotated(source: PythonSource, parent: ast.AnnAssign, child: ast.AST) -> Judged | None:
    return NEVER if child is parent.annotation else None


def _judge_call(source: PythonSource, parent: ast.Call, child: ast.AST) -> Judged | None:
    return NEVER if _is_autocast_of_other_device(source, parent) or _is_table(source, parent, child) else None


def _judge_function(
    source: PythonSource, parent: ast.FunctionDef | ast.AsyncFunctionDef, child: ast.AST
) -> Judged | None:
    if child is parent.returns or _is_decorator(source, parent, child) or _is_registered(parent):
        return NEVER
    if parent.name in OF_TRL or (NAMES_BF16.search(parent.name) and _has_float16_counterpart(source, parent.name)):
        return NEVER
    return None


def _has_float16_counterpart(source: PythonSource, name: str) -> bool:
    """Return True if the file defines `apply_half` or `apply_fp16` beside `apply_bfloat16`."""
    float16_names = {NAMES_BF16.sub(word, name) for word in HALF_WORDS}
    return any(each.name in float16_names for each in source.names.of_type(ast.FunctionDef))


def _is_row_of_choices(source: PythonSource, choice: ast.IfExp) -> bool:
    """Return True for a chain that also selects float16: `bf16 if x == "bf16" else fp16 if x == "fp16" else fp32`."""
    words = [each.value for each in ast.walk(choice.orelse) if isinstance(each, ast.Constant)]
    has_half = isinstance(choice.orelse, ast.IfExp) and any(word in HALF_WORDS for word in words)
    return has_half and names_bf16(source, choice.test)


def _is_decorator(source: PythonSource, above: ast.FunctionDef | ast.AsyncFunctionDef, child: ast.AST) -> bool:
    """Return True for a decorator, such as `pytest.mark.parametrize`, that is not for autocast or for an option."""
    if child not in above.decorator_list:
        return False
    if not isinstance(child, ast.Call):
        return True
    return tail_of(child) not in DECLARES and not (source.names.meaning(child.func) or "").endswith("autocast")


def _is_registered(above: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for a function that a decorator registers under a word for bfloat16."""
    calls = [each for each in above.decorator_list if isinstance(each, ast.Call) and tail_of(each) not in DECLARES]
    words = [each.value for call in calls for each in call.args[:1] if isinstance(each, ast.Constant)]
    return any(NAMES_BF16.fullmatch(str(word)) for word in words)


def _falls_back(source: PythonSource, node: ast.expr) -> bool:
    above = source.names.parent(node)
    return (
        isinstance(above, ast.IfExp)
        and node is above.body
        and _is_float32(source, above.orelse)
        and tests_card(source, above.test)
    )


def _is_switch(source: PythonSource, test: ast.expr) -> bool:
    """Return True for a variable such as `args.bf16` that selects half precision independently of the card."""
    named = isinstance(test, (ast.Name, ast.Attribute)) and NAMES_BF16.search(source.segment(test)) is not None
    return named and not tests_card(source, test)


def _judge_dict(source: PythonSource, above: ast.Dict, child: ast.AST) -> Judged | None:
    """Return NEVER for a key, a value whose key names bfloat16, or a row of a dtype table. Otherwise, return None."""
    if child in above.keys:
        return NEVER
    key = above.keys[above.values.index(child)] if child in above.values else None
    if key is None:
        return None
    if NAMES_BF16.search(source.segment(key)):
        return NEVER
    others = [value for value in above.values if value is not child]
    is_table = bool(others) and all(_is_dtype(source, value) for value in others)
    is_word = isinstance(child, ast.Constant) and not _is_dtype(source, child)
    return NEVER if is_table and not is_word and not _is_called_dtype(key) else None


def _is_dtype(source: PythonSource, node: ast.expr) -> bool:
    if _is_other_dtype(source, node) or source.names.meaning(node) == "torch.bfloat16":
        return True
    return isinstance(node, (ast.Name, ast.Attribute, ast.Constant)) and bool(NAMES_BF16.search(source.segment(node)))


def _is_row_of_list(source: PythonSource, above: ast.List | ast.Tuple | ast.Set, child: ast.AST) -> bool:
    """Return True if the list contains other dtypes and the item is not the value of a flag in a command."""
    index = above.elts.index(child) if isinstance(child, ast.expr) and child in above.elts else 0
    before = above.elts[index - 1] if index else None
    if isinstance(before, ast.Constant) and isinstance(before.value, str) and before.value.startswith("--"):
        return False
    return any(_is_other_dtype(source, each) for each in above.elts if each is not child)


def _is_spelling(source: PythonSource, above: ast.List | ast.Tuple | ast.Set, child: ast.AST) -> bool:
    """Return True if the list contains another spelling of bfloat16, as in `["bf16", "bfloat16", torch.bfloat16]`."""
    others = [each for each in above.elts if each is not child]
    return any(isinstance(each, ast.Constant) and bool(NAMES_BF16.fullmatch(str(each.value))) for each in others)


def _is_called_dtype(key: ast.expr) -> bool:
    return isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.endswith(("type", "precision"))


def _is_other_dtype(source: PythonSource, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.lower() in OTHER_WORDS
    return source.names.meaning(node) in OTHER_DTYPES


def _is_float32(source: PythonSource, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value in ("float32", "fp32", "no")
    return source.names.meaning(node) in FLOATS


def _is_autocast_of_other_device(source: PythonSource, call: ast.Call) -> bool:
    meaning = source.names.meaning(call.func) or ""
    if not meaning.endswith("autocast"):
        return False
    devices = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "device_type")]
    return ".cpu." in meaning or any(isinstance(each, ast.Constant) and each.value in OTHER_DEVICES for each in devices)


def _is_table(source: PythonSource, call: ast.Call, child: ast.AST) -> bool:
    """Return True if the call lists, inspects or prints values instead of selecting one, such as `choices=`."""
    if isinstance(child, ast.keyword):
        named = NAMES_BF16.fullmatch(child.arg or "") is not None and is_table_of_dtypes(source, call)
        return named or child.arg in ("choices", "help", "metavar", "description")
    if any(source.names.meaning(each) in OTHER_DTYPES for each in call.args if each is not child):
        return True
    function = call.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    if name == "print" and isinstance(child, ast.Call):
        return False
    return name in ("isinstance", "startswith", "endswith", "index", "count", "print", "assertEqual", "Literal")


NEVER_INSIDE = (ast.Compare, ast.Assert, ast.pattern, ast.arg)
PARENTS: dict[type[ast.AST], Callable[[PythonSource, Any, ast.AST], Judged | None]] = {
    ast.Dict: _judge_dict,
    ast.List: _judge_display,
    ast.Tuple: _judge_display,
    ast.Set: _judge_display,
    ast.IfExp: _judge_choice,
    ast.If: _judge_branch,
    ast.match_case: _judge_case,
    ast.ExceptHandler: _judge_handler,
    ast.AnnAssign: _judge_annotated,
    ast.Subscript: _judge_subscript,
    ast.Call: _judge_call,
    ast.FunctionDef: _judge_function,
    ast.AsyncFunctionDef: _judge_function,
}
"""The function that judges each type of parent node. Other types do not affect the verdict."""
