"""Edit code that selects bfloat16 implicitly: `dtype="auto"`, loads without a dtype, and TRL's default."""

from __future__ import annotations

import ast
import re

from fixers.code.bf16_forms.reasons_to_keep import reason_to_keep
from fixers.code.draft import Draft
from fixers.code.float32_need import loads_in_float32
from fixers.frame.target import Target
from fixers.sources.chosen_words import constant_of, rewritten_literal
from fixers.sources.expressions import tail_of, values_of
from fixers.sources.float_models import is_speech_load
from fixers.sources.function_roles import names_adapters
from fixers.sources.options import auto_dtypes
from fixers.sources.python import PythonSource

MODEL_CLASS = re.compile(r"Auto(?:Peft)?Model\w*|\w+For(?:CausalLM|ConditionalGeneration|Seq2SeqLM|SpeechSeq2Seq|CTC)")
ENCODER = re.compile(r"AutoModel(?:For(?:MaskedLM|MultipleChoice|QuestionAnswering|\w+Classification))?")
"""The classes of encoders, whose checkpoints are in float32 with few exceptions."""
DTYPE_KEYWORDS = ("dtype", "torch_dtype")
TRL_CONFIGS = re.compile(r"trl\.(?:\w+\.)*\w*(?:SFT|DPO|GRPO|KTO|ORPO|CPO|RLOO|PPO|GKD|BCO|XPO|PRM|Reward)\w*Config$")
OF_PLAIN_CLASS = frozenset({"PPOConfig"})
"""Configs that were plain classes without mixed precision before TRL 0.12."""
OF_TRAINER = frozenset({"output_dir", "num_train_epochs", "per_device_train_batch_size", "logging_steps", "report_to"})
"""Arguments of Trainer, which only configs with mixed precision accept."""
WHY_AUTO = '"auto" selects the checkpoint\'s dtype, which is bfloat16 for most current models'
WHY_NO_DTYPE = "no dtype is given: transformers 5 loads a bfloat16 checkpoint as bfloat16"
WHY_TRL = "TRL enables bfloat16 unless float16 is set"


def set_load_dtypes(draft: Draft, target: Target) -> None:
    """Select float16 explicitly where a library would choose bfloat16 by default."""
    options: dict[int, ast.Constant] = {}
    for call in draft.source.names.of_type(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("from_pretrained", "from_config"):
            _judge_load(draft, call, call.func, target)
            given = (keyword.value for keyword in call.keywords if keyword.arg is None)
            options |= {id(auto): auto for each in given for auto in auto_dtypes(draft.source, each)}
        elif TRL_CONFIGS.match(draft.source.names.meaning(call.func) or ""):
            _judge_trl(draft, call)
    for auto in options.values():
        _name_dtype(draft, auto)


def _judge_load(draft: Draft, call: ast.Call, function: ast.Attribute, target: Target) -> None:
    given = [keyword.value for keyword in call.keywords if keyword.arg in DTYPE_KEYWORDS]
    autos = [value for value in given if isinstance(value, ast.Constant) and _is_auto(value)]
    for value in autos:
        _name_dtype(draft, value)
    if not given and function.attr == "from_pretrained" and _is_model(draft, function.value):
        _judge_default(draft, call, target)


def _name_dtype(draft: Draft, auto: ast.Constant) -> None:
    """Replace "auto" with float16."""
    literal = rewritten_literal(draft.source, auto, "float16")
    reason = reason_to_keep(draft.source, auto)
    if reason:
        draft.leave(auto, reason)
    elif literal is not None:
        draft.replace(auto, literal, WHY_AUTO)


def _judge_default(draft: Draft, call: ast.Call, target: Target) -> None:
    """Add a dtype to a load without a dtype: transformers 5 uses the dtype of the checkpoint."""
    if loads_in_float32(draft.source, target):
        return
    if is_speech_load(draft.source, call) and not target.code_facts.traits.half_speech:
        return
    if ENCODER.fullmatch(_class_of(draft, call)) and not _trains_few_weights(draft.source):
        return  # a whole encoder in float16 would have float16 gradients, which a loss scaler refuses
    if reason := reason_to_keep(draft.source, call):
        draft.leave(call, reason)
        return
    starred = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if any(_holds_dtype(draft, value) for value in starred):
        return
    if starred or target.at_least("transformers", (5,)) is None:
        draft.warn(call, WHY_NO_DTYPE, hint='dtype="float16"')
        return
    quote = draft.source.quote_for(call) or '"'
    _append_keyword(draft, call, f"dtype={quote}float16{quote}", WHY_AUTO)


def _trains_few_weights(source: PythonSource) -> bool:
    """Return True if the file names adapters, or freezes a whole model.

    A loop that freezes only parameters of some names leaves most of the weights to the optimizer.
    """
    if names_adapters(source.data):
        return True
    frozen = (each for each in source.names.of_type(ast.Call) if tail_of(each) == "requires_grad_")
    if any([constant_of(value) for value in (*each.args, *values_of(each))] == [False] for each in frozen):
        return True
    assigned = (each for each in source.names.of_type(ast.Assign) if constant_of(each.value) is False)
    named = (each for each in assigned if any(tail == "requires_grad" for tail in map(_attribute_of, each.targets)))
    return any(not isinstance(source.names.parent(each), ast.If) for each in named)


def _attribute_of(target: ast.expr) -> str:
    return target.attr if isinstance(target, ast.Attribute) else ""


def _holds_dtype(draft: Draft, options: ast.expr) -> bool:
    """Return True if this file sets a dtype in the options. "auto" counts, because another edit replaces it."""
    if any(True for _ in auto_dtypes(draft.source, options)):
        return True
    if isinstance(options, (ast.Dict, ast.Call)):
        return _gives_dtype(options)
    written = draft.source.segment(options)
    for assignment in draft.source.names.of_type(ast.Assign):
        for target in assignment.targets:
            match target:
                case ast.Subscript(value=held, slice=ast.Constant(value=key)) if key in DTYPE_KEYWORDS:
                    if draft.source.segment(held) == written and not _is_auto(assignment.value):
                        return True
                case ast.Name() | ast.Attribute() if draft.source.segment(target) == written:
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


def _class_of(draft: Draft, call: ast.Call) -> str:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    return (draft.source.names.meaning(owner) or "").rpartition(".")[2]


def _is_model(draft: Draft, owner: ast.expr) -> bool:
    meaning = draft.source.names.meaning(owner) or ""
    return meaning.startswith("transformers.") and MODEL_CLASS.fullmatch(meaning.rpartition(".")[2]) is not None


def _judge_trl(draft: Draft, call: ast.Call) -> None:
    given = {keyword.arg for keyword in call.keywords}
    if given & {"bf16", "fp16"} or _is_fallback(draft.source, call):
        return
    if tail_of(call) in OF_PLAIN_CLASS and not given & OF_TRAINER:
        return
    if None in given:
        draft.warn(call, WHY_TRL, hint="fp16=True")
        return
    _append_keyword(draft, call, "fp16=True", WHY_TRL)


def _is_fallback(source: PythonSource, call: ast.Call) -> bool:
    """Return True for `if args is None: args = GRPOConfig(...)`, which creates the default arguments of a trainer."""
    statement = source.names.statement(call)
    above = source.names.parent(statement)
    if not isinstance(statement, ast.Assign) or not isinstance(above, ast.If):
        return False
    return source.segment(above.test) == f"{source.segment(statement.targets[0])} is None"


def _append_keyword(draft: Draft, call: ast.Call, written: str, why: str) -> None:
    draft.edits.append(draft.source.append_argument(call, written, why))
