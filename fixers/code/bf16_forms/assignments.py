"""Edit assignments such as `args.bf16 = True` and `config["bf16"] = True`, and report switches that enable tf32."""

from __future__ import annotations

import ast

from fixers.code.bf16_forms.flag_values import set_value
from fixers.code.bf16_forms.flags import COUNTERPARTS, key_renamer
from fixers.code.draft import Draft
from fixers.frame.source_fixer import NO_BFLOAT16
from fixers.settings.precision_words import LIKE_BF16, fp16_name
from fixers.settings.refusals import refusal_of
from fixers.sources.chosen_words import constant_of
from fixers.sources.gates import NAMES_BF16, is_gated
from fixers.sources.python import PythonSource
from fixers.sources.readers.consumers import Consumers
from fixers.sources.training_setup import block_of
from remote.protocol.findings import Severity


def replace_assigned_flags(draft: Draft, consumers: Consumers) -> None:
    """In assignments, set bfloat16 flags to False and their float16 counterparts to True."""
    for assignment in draft.source.names.of_type(ast.Assign):
        _judge_assignment(draft, consumers, assignment)
    for declared in draft.source.names.of_type(ast.AnnAssign):
        _swap_pair(draft, declared)


def _judge_assignment(draft: Draft, consumers: Consumers, node: ast.Assign) -> None:
    """Change `args.bf16 = True` and `config["bf16"] = True`, and report switches that enable tf32."""
    if constant_of(node.value) is not True or len(node.targets) != 1:
        return
    target = node.targets[0]
    if isinstance(target, ast.Attribute) and target.attr in COUNTERPARTS:
        _flip_attribute(draft, node, target)
    elif (
        isinstance(target, ast.Subscript)
        and constant_of(target.slice) in COUNTERPARTS
        and not is_gated(draft.source, node.value)
    ):
        key = target.slice
        assert isinstance(key, ast.Constant)
        _rename_key(draft, consumers, key)
    elif isinstance(target, ast.Attribute) and target.attr == "allow_tf32":
        message = "this card has no TF32; the switch has no effect"
        draft.warn(node, message, severity=Severity.INFO)


def _swap_pair(draft: Draft, node: ast.AnnAssign) -> None:
    """Swap the values of `self.use_bf16: bool = True` and `self.use_fp16: bool = False` in the same block."""
    target = node.target
    if not isinstance(target, ast.Attribute) or target.attr in COUNTERPARTS or constant_of(node.value) is not True:
        return
    twin = fp16_name(target.attr)
    if twin == target.attr or not LIKE_BF16.fullmatch(target.attr):
        return
    for other in block_of(draft.source, node):
        match other:
            case ast.AnnAssign(target=ast.Attribute(attr=name, value=owner), value=ast.Constant(value=False) as off):
                if name == twin and draft.source.segment(owner) == draft.source.segment(target.value):
                    assert node.value is not None
                    set_value(draft, off, "True")
                    set_value(draft, node.value, "False")


def _follows_switch(source: PythonSource, node: ast.Assign) -> bool:
    """Return True if another bfloat16 switch controls the line: `if args.memory_efficient_bf16: args.bf16 = True`."""
    above = source.names.parent(node)
    return (
        isinstance(above, ast.If) and node in above.body and NAMES_BF16.search(source.segment(above.test)) is not None
    )


def _rename_key(draft: Draft, consumers: Consumers, key: ast.Constant) -> None:
    """Rename the key of `config["bf16"] = True`, or warn if the project's settings class declares no float16 key."""
    name, counterpart = str(key.value), COUNTERPARTS[str(key.value)]
    if refused := consumers.refusing(name, counterpart):
        draft.warn(key, *refusal_of(name, refused, counterpart))
    else:
        key_renamer(draft, key)(counterpart)


def _flip_attribute(draft: Draft, node: ast.Assign, target: ast.Attribute) -> None:
    if is_gated(draft.source, node.value) or _follows_switch(draft.source, node):
        return
    counterpart = COUNTERPARTS[target.attr]
    owner = draft.source.segment(target.value)
    for other in draft.source.names.of_type(ast.Assign):
        match other.targets:
            case [ast.Attribute() as beside] if (
                beside.attr == counterpart and draft.source.segment(beside.value) == owner
            ):
                if constant_of(other.value) is False:
                    set_value(draft, other.value, "True")
                set_value(draft, node.value, "False")
                return
    draft.edits.append(draft.source.replace_attribute(target, counterpart, NO_BFLOAT16))
