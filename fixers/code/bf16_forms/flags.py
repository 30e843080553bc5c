"""Edit `bf16=True` and similar flags in keywords, dict keys, attributes and fields, DeepSpeed blocks, and tf32."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from fixers.code.bf16_forms.deepspeed_blocks import flip_block
from fixers.code.bf16_forms.flag_values import OFF, is_of_branch, operand, set_value
from fixers.code.draft import Draft
from fixers.frame.code_traits import ON_BY_DEFAULT
from fixers.frame.source_fixer import NO_BFLOAT16
from fixers.settings.refusals import refusal_of
from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import tail_of
from fixers.sources.gates import CAPABLE, NAMES_BF16, is_gated, tests_card
from fixers.sources.imports import name_of
from fixers.sources.python import PythonSource
from fixers.sources.readers.comparisons import without_bool
from fixers.sources.readers.consumers import Consumers
from fixers.sources.readers.displays import is_table_of_dtypes
from fixers.sources.readers.reader import Fields
from remote.protocol.dataclass import dataclass

COUNTERPARTS = {"bf16": "fp16", "bf16_full_eval": "fp16_full_eval"}
FLAGS_EDITED = frozenset({*COUNTERPARTS, "tf32"})
TAKES_FLAGS = re.compile(r".*(?:Arguments|Args|Config|Trainer|Settings|Plugin)$|dict$|update$|replace$")
LIBRARIES = ("transformers.", "trl.", "accelerate.", "peft.", "optimum.")
BELOW = CAPABLE.replace(">=", "<")
HALF_DTYPES = ("torch.bfloat16", "torch.float16", "torch.half")
SWITCHED_ON = (True, "auto", "True", "true")


@dataclass(frozen=True)
class Flag:
    """The value of a flag. Calling `rename` adds the edit that renames the flag."""

    value: ast.expr
    rename: Callable[[str], None]


Flags = dict[str, Flag]


def replace_flags(draft: Draft, consumers: Consumers) -> None:
    """Set bfloat16 flags to False and their float16 counterparts to True."""
    names = draft.source.names
    for call in names.of_type(ast.Call):
        if not is_table_of_dtypes(draft.source, call):
            _judge_call(draft, consumers, call)
        _judge_tf32_option(draft, call)
    for display in names.of_type(ast.Dict):
        _judge_dict(draft, display)
    for definition in names.of_type(ast.ClassDef):
        _judge_class(draft, definition)


def _judge_call(draft: Draft, consumers: Consumers, call: ast.Call) -> None:
    if not any(keyword.arg in FLAGS_EDITED for keyword in call.keywords):
        return
    flags: Flags = {}
    for keyword in call.keywords:
        if keyword.arg is not None:
            flags[keyword.arg] = Flag(keyword.value, _keyword_renamer(draft, keyword))
    if _forwards_both(draft.source, flags):
        return
    if refused := _refusing_class(draft, consumers, call, flags):
        draft.warn(call, *refusal_of("bf16=True", refused, "fp16"))
        return
    if not _takes_flags(draft, call, flags):
        if any(constant_of(flags[name].value) is True for name in COUNTERPARTS if name in flags):
            draft.warn(call, "bf16=True is passed to a class or function of the project; this card needs float16")
        return
    for flag, counterpart in COUNTERPARTS.items():
        _flip(draft, flags, flag, counterpart, variables=True)
    _turn_off_tf32(draft, flags)
    _add_counterpart(draft, call, flags)


def _forwards_both(source: PythonSource, flags: Flags) -> bool:
    """Return True for `bf16=args.bf16, fp16=args.fp16`: the commands and configs that set these switches are edited."""
    values = [flags[name].value for name in ("bf16", "fp16") if name in flags]
    match values:
        case [ast.Attribute(value=one, attr="bf16"), ast.Attribute(value=other, attr="fp16")]:
            return source.segment(one) == source.segment(other) and not ON_BY_DEFAULT.search(source.text)
    return False


def _add_counterpart(draft: Draft, call: ast.Call, flags: Flags) -> None:
    """Add `fp16=` to a call with only `bf16=<test of the card>`, which uses no mixed precision on this card."""
    given = flags.get("bf16")
    torch = name_of(draft.source, "torch")
    if given is None or "fp16" in flags or torch is None or not tests_card(draft.source, given.value):
        return
    if isinstance(given.value, ast.Constant) or not _has_half_weights(draft.source):
        return
    for keyword in call.keywords:
        if keyword.arg == "bf16":
            test = draft.source.segment(given.value)
            below = test.replace(CAPABLE, BELOW) if test.endswith(CAPABLE) and test.count(" and ") == 1 else None
            written = below or f"{torch}.cuda.is_available() and not {operand(draft.source, given.value)}"
            draft.edits.append(draft.source.insert_argument_before(keyword, f"fp16={written}", NO_BFLOAT16))


def _has_half_weights(source: PythonSource) -> bool:
    """Return True if the file selects half precision without a test of the card."""
    halves = (each for each in source.names.of_type(ast.Attribute) if source.names.meaning(each) in HALF_DTYPES)
    return any(not is_gated(source, each) for each in halves)


def _keyword_renamer(draft: Draft, keyword: ast.keyword) -> Callable[[str], None]:
    return lambda name: draft.edits.append(draft.source.replace_keyword(keyword, name, NO_BFLOAT16))


def _refusing_class(draft: Draft, consumers: Consumers, call: ast.Call, flags: Flags) -> Fields | None:
    """Return the project's class that the call creates.

    Return None if the class declares the float16 counterpart of each enabled flag, or if the call creates no class of
    the project.
    """
    if (draft.source.names.meaning(call.func) or "").startswith(LIBRARIES):
        return None
    fields = consumers.class_named(tail_of(call))
    if fields is None:
        return None
    enabled = [flag for flag in COUNTERPARTS if flag in flags and constant_of(flags[flag].value) not in OFF]
    return fields if any(not consumers.declares(fields, COUNTERPARTS[flag]) for flag in enabled) else None


def _takes_flags(draft: Draft, call: ast.Call, flags: Flags) -> bool:
    """Return True if the callee accepts both flags, judged by its library, name or signature."""
    names = draft.source.names
    meaning = names.meaning(call.func)
    if meaning is not None and meaning.startswith(LIBRARIES):
        return True
    tail = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    accepted = _parameters_of(draft.source, tail)
    if accepted is None:
        return TAKES_FLAGS.match(tail) is not None
    return all(counterpart in accepted for flag, counterpart in COUNTERPARTS.items() if flag in flags)


def _parameters_of(source: PythonSource, name: str) -> set[str] | None:
    """Return the parameters of this file's function `name`, or the fields of its class `name`.

    Return None if there is neither, or if the class has bases.
    """
    for function in source.names.of_type(ast.FunctionDef):
        if function.name == name:
            return {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    own = next((node for node in source.names.of_type(ast.ClassDef) if node.name == name), None)
    if own is None or own.bases:
        return None
    return {source.segment(each.target) for each in own.body if isinstance(each, ast.AnnAssign)}


def _flip(draft: Draft, flags: Flags, flag: str, counterpart: str, *, variables: bool) -> None:
    given = flags.get(flag)
    if given is None or constant_of(given.value) in OFF or tests_card(draft.source, given.value):
        return
    constant = constant_of(given.value)
    if constant not in SWITCHED_ON and not variables:
        return
    if is_of_branch(draft.source, given.value):
        return
    other = flags.get(counterpart)
    if isinstance(without_bool(given.value), ast.Compare) and NAMES_BF16.search(draft.source.segment(given.value)):
        if other is None:
            draft.warn(given.value, f"{flag} depends on a dtype, and {counterpart} is not set if that dtype is float16")
        return
    if other is None:
        given.rename(counterpart)
    elif constant_of(other.value) in OFF:
        set_value(draft, other.value, draft.source.segment(given.value))
        set_value(draft, given.value, "False")
    elif constant_of(other.value) is True:
        set_value(draft, given.value, "False")
    elif constant is True:
        set_value(draft, other.value, "True")
        set_value(draft, given.value, "False")
    elif not tests_card(draft.source, other.value):
        set_value(draft, other.value, f"{operand(draft.source, other.value)} or {operand(draft.source, given.value)}")
        set_value(draft, given.value, "False")


def _turn_off_tf32(draft: Draft, flags: Flags) -> None:
    tf32 = flags.get("tf32")
    if tf32 is not None and constant_of(tf32.value) is True:
        draft.edits.append(draft.source.replace_node(tf32.value, "False", "tf32=True needs Ampere or newer"))


def _judge_tf32_option(draft: Draft, call: ast.Call) -> None:
    """Set the default of `add_argument("--tf32", default=True)` to False."""
    if any(constant_of(each) == "--tf32" for each in call.args):
        for keyword in call.keywords:
            if keyword.arg == "default" and constant_of(keyword.value) is True:
                edit = draft.source.replace_node(keyword.value, "False", "tf32=True needs Ampere or newer")
                draft.edits.append(edit)


def _judge_dict(draft: Draft, node: ast.Dict) -> None:
    flags: Flags = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            flags[key.value] = Flag(value, key_renamer(draft, key))
    if isinstance(block := flags.get("bf16"), Flag) and isinstance(block.value, ast.Dict):
        flip_block(draft, block.value, block.rename, flags["fp16"].value if "fp16" in flags else None)
        return
    for flag, counterpart in COUNTERPARTS.items():
        _flip(draft, flags, flag, counterpart, variables=False)
    _turn_off_tf32(draft, flags)


def key_renamer(draft: Draft, key: ast.Constant) -> Callable[[str], None]:
    """Return a function that renames the key and keeps its quotes."""
    written = draft.source.segment(key)
    return lambda name: draft.edits.append(
        draft.source.replace_node(key, written.replace(str(key.value), name), NO_BFLOAT16)
    )


def _item(node: ast.Dict, name: str) -> ast.expr | None:
    return next((v for k, v in zip(node.keys, node.values, strict=True) if constant_of(k) == name), None)


def _judge_class(draft: Draft, node: ast.ClassDef) -> None:
    """Change the fields of a dataclass of arguments."""
    flags: Flags = {}
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value is not None:
            flags[field.target.id] = Flag(_default(field.value), _name_renamer(draft, field.target))
    given = flags.get("bf16")
    if given is None or constant_of(given.value) is not True:
        return
    inherits = any((draft.source.names.meaning(base) or "").startswith(LIBRARIES) for base in node.bases)
    if inherits or "fp16" in flags:
        _flip(draft, flags, "bf16", "fp16", variables=False)
    else:
        draft.warn(given.value, f"{node.name}.bf16 is True by default, and there is no fp16 field")


def _default(value: ast.expr) -> ast.expr:
    """Return the default value. For `field(default=...)`, return the argument."""
    if isinstance(value, ast.Call):
        return next((keyword.value for keyword in value.keywords if keyword.arg == "default"), value)
    return value


def _name_renamer(draft: Draft, name: ast.Name) -> Callable[[str], None]:
    return lambda new: draft.edits.append(draft.source.replace_node(name, new, NO_BFLOAT16))
