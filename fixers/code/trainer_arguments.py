"""trainer-arguments: arguments under the names that today's Trainer and TRL know.

What it does
    In calls of classes that are really imported from transformers or TRL (or of subclasses written in the same file),
    arguments that were renamed get their new names, and arguments that were removed and did nothing are taken out.
    Nothing is renamed for an installed or pinned version that does not know the new name. What has no equal is told.

Why
    transformers 5 refuses the old names: `TypeError: ... got an unexpected keyword argument 'tokenizer'`.

Before
    args = TrainingArguments("out", evaluation_strategy="steps", warmup_ratio=0.1)
    trainer = Trainer(model=model, args=args, tokenizer=processor)

After
    args = TrainingArguments("out", eval_strategy="steps", warmup_steps=0.1)
    trainer = Trainer(model=model, args=args, processing_class=processor)

What it can break
    A script that must also run under an older transformers: pin that version in requirements.txt and nothing is done.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from fixers.code.draft import Draft
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.sources.chosen_words import constant_of
from fixers.sources.python import reads_python
from fixers.sources.source import Source

name = "trainer-arguments"
version = 1
safety = "safe"
needles = (b"Trainer", b"TrainingArguments", b"trl", b"torch_dtype", b"load_in_")
below = None
brings: tuple[str, ...] = ()
matches = reads_python


@dataclass(frozen=True)
class Renamed:
    """A new name, since which version; `value` replaces a value of True where the meaning moved into the value."""

    to: str
    package: str
    since: tuple[int, ...]
    value: str = ""


@dataclass(frozen=True)
class Removed:
    """An argument that is gone. `instead` is told; an empty one means that it did nothing worth keeping."""

    package: str
    since: tuple[int, ...]
    instead: str = ""


V5 = ("transformers", (5,))
ARGUMENTS: dict[str, Renamed | Removed] = {
    "evaluation_strategy": Renamed("eval_strategy", "transformers", (4, 41)),
    "warmup_ratio": Renamed("warmup_steps", *V5),
    "group_by_length": Renamed("train_sampling_strategy", *V5, value='"group_by_length"'),
    "no_cuda": Renamed("use_cpu", *V5),
    "per_gpu_train_batch_size": Renamed("per_device_train_batch_size", *V5),
    "per_gpu_eval_batch_size": Renamed("per_device_eval_batch_size", *V5),
    "push_to_hub_token": Renamed("hub_token", *V5),
    "push_to_hub_model_id": Renamed("hub_model_id", *V5),
    "logging_dir": Removed(*V5, instead="set TENSORBOARD_LOGGING_DIR in the environment; runs of ours have it set"),
    "fsdp_min_num_params": Removed(*V5, instead="give it inside fsdp_config"),
    "fsdp_transformer_layer_cls_to_wrap": Removed(*V5, instead="give it inside fsdp_config"),
    "include_inputs_for_metrics": Removed(*V5, instead='use include_for_metrics=["inputs"]'),
    "overwrite_output_dir": Removed(*V5),
    "save_safetensors": Removed(*V5),
    "use_mps_device": Removed(*V5),
    "past_index": Removed(*V5),
    "fp16_backend": Removed(*V5),
    "half_precision_backend": Removed(*V5),
    "jit_mode_eval": Removed(*V5),
    "tpu_num_cores": Removed(*V5),
    "ray_scope": Removed(*V5),
    "include_tokens_per_second": Removed(*V5),
}
TRL_ARGUMENTS: dict[str, Renamed | Removed] = {"max_seq_length": Renamed("max_length", "trl", (0, 16))}
TRAINER: dict[str, Renamed | Removed] = {"tokenizer": Renamed("processing_class", "transformers", (4, 46))}
TRAIN: dict[str, Renamed | Removed] = {"model_path": Renamed("resume_from_checkpoint", *V5)}
IMPORTS = re.compile(rb"(?:from|import)[ \t]+(?:transformers|trl)\b")
ARGUMENT_CLASS = re.compile(r"(?:transformers|trl)\.(?:\w+\.)*\w*(?:TrainingArguments|Config)$")
TRAINER_CLASS = re.compile(r"(?:transformers|trl)\.(?:\w+\.)*\w*Trainer$")
DTYPE = Renamed("dtype", "transformers", (4, 56))
LOADERS = ("from_pretrained", "from_config")
WHY = "the name that transformers knows now"


def rewrite(source: Source, target: Target) -> Rewrite:
    """New names for renamed arguments, none for removed ones."""
    if not IMPORTS.search(source.data):
        return NOTHING
    draft = Draft(source.python, name)
    for call in draft.source.names.of_type(ast.Call):
        made = _class_of(draft, call.func)
        if ARGUMENT_CLASS.match(made):
            _judge(draft, call, ARGUMENTS | (TRL_ARGUMENTS if made.startswith("trl.") else {}), target)
        elif TRAINER_CLASS.match(made):
            _judge(draft, call, TRAINER, target)
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "train":
            _judge(draft, call, TRAIN, target)
        elif isinstance(call.func, ast.Attribute) and call.func.attr in LOADERS:
            _judge_load(draft, call, call.func, target)
    return draft.rewrite


def _class_of(draft: Draft, function: ast.expr) -> str:
    """What is called: a class of a library, or the library class that a class of this file inherits from."""
    meaning = draft.source.names.meaning(function)
    if meaning is not None or not isinstance(function, ast.Name):
        return meaning or ""
    own = [node for node in draft.source.names.of_type(ast.ClassDef) if node.name == function.id]
    if len(own) != 1 or any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in own[0].body):
        return ""
    bases = (draft.source.names.meaning(base) for base in own[0].bases)
    return next((base for base in bases if base is not None), "")


def _judge(draft: Draft, call: ast.Call, table: dict[str, Renamed | Removed], target: Target) -> None:
    given = {keyword.arg for keyword in call.keywords}
    for keyword in call.keywords:
        change = table.get(keyword.arg or "")
        if change is None or target.at_least(change.package, change.since) is False:
            continue
        if isinstance(change, Removed):
            _remove(draft, call, keyword, change)
        elif change.to in given:
            draft.warn(keyword, f"{keyword.arg} is now called {change.to}, which is given too; take one out")
        else:
            _rename(draft, keyword, change)


def _rename(draft: Draft, keyword: ast.keyword, change: Renamed) -> None:
    if change.value and constant_of(keyword.value) is not True:
        message = f"{keyword.arg} is gone: {change.to}={change.value} asks for it"
        draft.warn(keyword, message)
        return
    draft.edits.append(draft.source.replace_keyword(keyword, change.to, WHY))
    if change.value:
        draft.edits.append(draft.source.replace_node(keyword.value, change.value, WHY))


def _remove(draft: Draft, call: ast.Call, keyword: ast.keyword, change: Removed) -> None:
    if change.instead:
        draft.warn(keyword, f"transformers knows {keyword.arg} no longer: {change.instead}")
        return
    edit = draft.source.remove_argument(call, keyword, f"transformers knows {keyword.arg} no longer")
    if edit is None:
        draft.warn(keyword, f"transformers knows {keyword.arg} no longer; take it out")
    else:
        draft.edits.append(edit)


def _judge_load(draft: Draft, call: ast.Call, function: ast.Attribute, target: Target) -> None:
    """`torch_dtype=` still works and warns, so it is renamed only where the new name is known to be there."""
    if not (draft.source.names.meaning(function.value) or "").startswith("transformers."):
        return
    given = {keyword.arg for keyword in call.keywords}
    for keyword in call.keywords:
        if keyword.arg == "torch_dtype" and "dtype" not in given and target.at_least(DTYPE.package, DTYPE.since):
            draft.edits.append(draft.source.replace_keyword(keyword, DTYPE.to, WHY))
        elif keyword.arg in ("load_in_4bit", "load_in_8bit") and target.at_least(*V5) is not False:
            hint = f"quantization_config=BitsAndBytesConfig({keyword.arg}=True)"
            draft.warn(keyword, f"transformers 5 knows {keyword.arg} no longer", hint=hint)
