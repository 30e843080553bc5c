"""Turn the bf16 block of a DeepSpeed config in Python into its fp16 block, with a dynamic loss scale."""

from __future__ import annotations

import ast
from collections.abc import Callable

from fixers.code.bf16_forms.flag_values import OFF, is_of_branch, operand, set_value
from fixers.code.draft import Draft
from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import written
from fixers.sources.python import PythonSource
from fixers.sources.readers.comparisons import test_of

DEEPSPEED_FP16 = (
    '{{"enabled": {enabled}, "loss_scale": 0, "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1}}'
)
FILLED = ("auto", True)


def flip_block(draft: Draft, block: ast.Dict, rename: Callable[[str], None], other: ast.expr | None) -> None:
    """Turn `"bf16": {"enabled": ...}` into an fp16 block. `rename` renames its key; `other` is the present fp16 block.

    If both blocks follow the same option, nothing changes here: the fixers change the value of the option.
    """
    enabled = _item(block, "enabled")
    if constant_of(enabled) in OFF or enabled is None or is_of_branch(draft.source, block):
        return
    if other is None:
        rename("fp16")
        set_value(draft, block, DEEPSPEED_FP16.format(enabled=draft.source.segment(enabled)))
        return
    on = _item(other, "enabled") if isinstance(other, ast.Dict) else None
    if isinstance(on, ast.UnaryOp) and draft.source.segment(on.operand) == draft.source.segment(enabled):
        return
    if _both_follow_an_option(draft.source, enabled, on):
        return
    if on is None:
        draft.warn(
            block, "DeepSpeed's bf16 block is enabled; disable it, and enable the fp16 block where it is defined"
        )
        return
    if constant_of(on) in OFF:
        set_value(draft, on, draft.source.segment(enabled))
    elif constant_of(on) not in FILLED:
        set_value(draft, on, f"{operand(draft.source, on)} or {operand(draft.source, enabled)}")
    if constant_of(enabled) != "auto" or constant_of(on) != "auto":
        set_value(draft, enabled, "False")


def _both_follow_an_option(source: PythonSource, enabled: ast.expr, on: ast.expr | None) -> bool:
    """Return True if one option selects bfloat16 and float16: `dtype == "bf16"` beside `dtype == "fp16"`.

    Also return True if branches set the names of both switches to True.
    """
    if on is None:
        return False
    names = [written(source, each) for each in (enabled, on)]
    if all(each and _is_turned_on(source, each) for each in names):
        return True
    tests = [test_of(source, each) for each in (enabled, on)]
    subjects = {source.segment(each.subject) for each in tests if each is not None}
    return None not in tests and len(subjects) == 1


def _is_turned_on(source: PythonSource, name: str) -> bool:
    """Return True if a branch sets the name to True, or if the name is assigned a test such as `dtype == "bf16"`."""
    for each in source.names.of_type(ast.Assign):
        if any(written(source, target) == name for target in each.targets):
            in_branch = isinstance(source.names.parent(each), ast.If) and constant_of(each.value) is True
            if in_branch or test_of(source, each.value) is not None:
                return True
    return False


def _item(node: ast.Dict, name: str) -> ast.expr | None:
    return next((v for k, v in zip(node.keys, node.values, strict=True) if constant_of(k) == name), None)
