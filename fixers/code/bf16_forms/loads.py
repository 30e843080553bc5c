"""Precision that nobody wrote: `dtype="auto"` or none, where the checkpoint is bfloat16, and TRL's own default."""

from __future__ import annotations

import ast
import re

from fixers.code.found import Found
from fixers.frame.target import Target
from fixers.sources.chosen_words import rewritten_literal

MODEL_CLASS = re.compile(r"Auto(?:Peft)?Model\w*|\w+For(?:CausalLM|ConditionalGeneration|Seq2SeqLM|SpeechSeq2Seq|CTC)")
DTYPE_KEYWORDS = ("dtype", "torch_dtype")
TRL_CONFIGS = re.compile(r"trl\.(?:\w+\.)*\w*(?:SFT|DPO|GRPO|KTO|ORPO|CPO|RLOO|PPO|GKD|BCO|XPO|PRM|Reward)\w*Config$")
WHY_AUTO = "\"auto\" takes the checkpoint's own dtype, which is bfloat16 for most of today's models"
WHY_TRL = "TRL turns bfloat16 on where float16 is not asked for"


def find_loads(found: Found, target: Target) -> None:
    """Edits that say float16 where a library would choose bfloat16 by itself."""
    for call in found.source.names.of_type(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("from_pretrained", "from_config"):
            _judge_load(found, call, call.func, target)
        elif TRL_CONFIGS.match(found.source.names.meaning(call.func) or ""):
            _judge_trl(found, call)


def _judge_load(found: Found, call: ast.Call, function: ast.Attribute, target: Target) -> None:
    given = [keyword for keyword in call.keywords if keyword.arg in DTYPE_KEYWORDS]
    for keyword in given:
        if isinstance(keyword.value, ast.Constant) and _is_auto(keyword.value):
            literal = rewritten_literal(found.source, keyword.value, "float16")
            if literal is not None:
                found.edits.append(found.source.replace_node(keyword.value, literal, WHY_AUTO))
    if given or function.attr != "from_pretrained" or not _is_model(found, function.value):
        return
    if target.at_least("transformers", (5,)) is False:
        return
    starred = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if any(_holds_dtype(found, value) for value in starred):
        return
    if starred or target.at_least("transformers", (5,)) is None:
        message = "no dtype is given: transformers 5 loads a bfloat16 checkpoint as bfloat16"
        found.warn(call, message, hint='dtype="float16"')
        return
    quote = found.source.quote_for(call) or '"'
    _append_keyword(found, call, f"dtype={quote}float16{quote}", WHY_AUTO)


def _holds_dtype(found: Found, options: ast.expr) -> bool:
    """The options are given a dtype of their own in this file."""
    if isinstance(options, (ast.Dict, ast.Call)):
        return _gives_dtype(options)
    written = found.source.segment(options)
    for assignment in found.source.names.of_type(ast.Assign):
        for target in assignment.targets:
            match target:
                case ast.Subscript(value=held, slice=ast.Constant(value=key)) if key in DTYPE_KEYWORDS:
                    if found.source.segment(held) == written and not _is_auto(assignment.value):
                        return True
                case ast.Name() | ast.Attribute() if found.source.segment(target) == written:
                    if _gives_dtype(assignment.value):
                        return True
    return False


def _gives_dtype(value: ast.expr) -> bool:
    match value:
        case ast.Dict():
            pairs = zip(value.keys, value.values, strict=True)
            return any(isinstance(k, ast.Constant) and k.value in DTYPE_KEYWORDS and not _is_auto(v) for k, v in pairs)
        case ast.Call(func=ast.Name(id="dict")):
            return any(each.arg in DTYPE_KEYWORDS and not _is_auto(each.value) for each in value.keywords)
    return False


def _is_auto(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == "auto"


def _is_model(found: Found, owner: ast.expr) -> bool:
    meaning = found.source.names.meaning(owner) or ""
    return meaning.startswith("transformers.") and MODEL_CLASS.fullmatch(meaning.rpartition(".")[2]) is not None


def _judge_trl(found: Found, call: ast.Call) -> None:
    given = {keyword.arg for keyword in call.keywords}
    if given & {"bf16", "fp16"}:
        return
    if None in given:
        found.warn(call, WHY_TRL, hint="fp16=True")
        return
    _append_keyword(found, call, "fp16=True", WHY_TRL)


def _append_keyword(found: Found, call: ast.Call, written: str, why: str) -> None:
    found.edits.append(found.source.append_argument(call, written, why))
