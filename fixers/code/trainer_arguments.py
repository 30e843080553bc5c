"""trainer-arguments: renamed and removed arguments of Trainer and TRL are updated.

What it does
    In calls of classes of transformers and TRL, or of their subclasses in the same file, renames arguments that have a
    new name and deletes arguments that were removed without replacement. Keys of dicts that such a call unpacks
    (`**options`) are changed too. Other dicts with the usual keys of Trainer are reported. Options in shell scripts and
    keys of YAML or JSON argument files are renamed or deleted if the project parses them into Trainer arguments
    (`HfArgumentParser`, `TrlParser`) and does not declare or read the old name in its own code.

    transformers reads the environment variable `TENSORBOARD_LOGGING_DIR` instead of the argument `logging_dir`. In
    Python and in shell scripts, the fixer sets this variable to the value of the argument, unless it is set already:
    halfstep sets it in its runs. Elsewhere, the fixer only deletes the option. TensorBoard then writes to `runs` in the
    output folder, unless the variable is set.

    A name is changed only if the installed or pinned version rejects it. If the version is unknown, no name is changed.
    The pins of the requirements file nearest to a script take precedence. If the project contains a copy of the library
    and pins no exact version, the version of the copy counts. `tokenizer` is not renamed, and a warning is
    printed, if the call of a TRL trainer also has arguments that moved to its config (`dataset_text_field`, `packing`).
    Arguments that need a decision by the user are reported.

Why
    transformers 5 rejects the old names: `TypeError: ... got an unexpected keyword argument 'tokenizer'`.

Before
    args = TrainingArguments("out", evaluation_strategy="steps", warmup_ratio=0.1)
    trainer = Trainer(model=model, args=args, tokenizer=processor)

After
    args = TrainingArguments("out", eval_strategy="steps", warmup_steps=0.1)
    trainer = Trainer(model=model, args=args, processing_class=processor)

What it can break
    A script that must also run with a transformers version older than the installed or pinned one.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re

from fixers.code.draft import Draft, joined
from fixers.code.replaced_by_variables import is_replaced
from fixers.code.trainer_options_in_dicts import has_argument_dict, judge_loose_dicts, judge_options
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.settings.launch_text import LaunchText
from fixers.settings.trainer_options import OPTIONS, reads_options, rewrite_launch_options, rewrite_options
from fixers.sources.chosen_words import constant_of
from fixers.sources.python import reads_python
from fixers.sources.source import Source
from fixers.sources.trainer_names import (
    ARGUMENTS,
    OLD_TRL,
    TRAIN,
    TRAINER,
    TRL_ARGUMENTS,
    TRL_PROCESSING_CLASS,
    TRL_TRAINER,
    V5,
    Removed,
    Renamed,
)

name = "trainer-arguments"
safety = "safe"
needles = (b"Trainer", b"TrainingArguments", b"trl", b"load_in_", *OPTIONS)
below = None
requires: tuple[str, ...] = ()


def matches(path: str) -> bool:
    return reads_python(path) or reads_options(path)


IMPORTS = re.compile(rb"(?:from|import)[ \t]+(?:transformers|trl)\b")
ARGUMENT_CLASS = re.compile(r"(?:transformers|trl)\.(?:\w+\.)*\w*(?:TrainingArguments|Config)$")
TRAINER_CLASS = re.compile(r"(?:transformers|trl)\.(?:\w+\.)*\w*Trainer$")
QUANTISING = ("load_in_4bit", "load_in_8bit")
LOADERS = ("from_pretrained", "from_config")
WHY = "renamed in transformers"


def rewrite(source: Source, target: Target) -> Rewrite:
    """Return the edits that rename and delete arguments for the target's versions of transformers and TRL."""
    if reads_options(source.path):
        return rewrite_options(source, target, name)
    in_dicts = has_argument_dict(source.searched)
    if not in_dicts and not IMPORTS.search(source.searched):
        return NOTHING
    draft = Draft(source.python, name)
    seen: set[int] = set()
    for call in draft.source.names.of_type(ast.Call):
        made = _class_of(draft, call.func)
        if ARGUMENT_CLASS.match(made):
            table = ARGUMENTS | (TRL_ARGUMENTS if made.startswith("trl.") else {})
            _judge(draft, call, table, target)
            judge_options(draft, call, table, target, seen)
        elif TRAINER_CLASS.match(made):
            _judge_trainer(draft, call, made, target)
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "train":
            _judge(draft, call, TRAIN, target)
        elif isinstance(call.func, ast.Attribute) and call.func.attr in LOADERS:
            _judge_load(draft, call, call.func, target)
    if in_dicts:
        judge_loose_dicts(draft, target, seen)
    return Rewrite(joined(draft.edits), tuple(draft.findings))


def rewrite_launch(launch: LaunchText, target: Target) -> Rewrite:
    """Return the edits that rename and delete options in the job's configured command."""
    return rewrite_launch_options(launch, target, name)


def _class_of(draft: Draft, function: ast.expr) -> str:
    """Return the library class that the call creates, or the library base class of the created class, or ""."""
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
        if change is None or not target.at_least(change.package, change.since):
            continue
        if isinstance(change, Removed):
            _remove(draft, call, keyword, change)
        elif change.to in given:
            draft.warn(keyword, f"{keyword.arg} was renamed to {change.to}, which is also given; remove one")
        else:
            _rename(draft, keyword, change)


def _judge_trainer(draft: Draft, call: ast.Call, made: str, target: Target) -> None:
    """Rename arguments of a trainer, unless the newer TRL version rejects other arguments of the call."""
    if made.startswith("trl."):
        old = sorted({each.arg for each in call.keywords if each.arg} & OLD_TRL)
        if not target.at_least(*TRL_PROCESSING_CLASS):
            return
        if old:
            message = f"this call is for an older TRL: {', '.join(old)} moved to the config, and tokenizer was renamed"
            draft.warn(call, message, hint=f"pin trl<0.12, or move {old[0]} to SFTConfig and pass processing_class=")
            return
    _judge(draft, call, TRL_TRAINER if made.startswith("trl.") else TRAINER, target)


def _rename(draft: Draft, keyword: ast.keyword, change: Renamed) -> None:
    if change.value and constant_of(keyword.value) is not True:
        message = f"{keyword.arg} was removed: use {change.to}={change.value}"
        draft.warn(keyword, message)
        return
    draft.edits.append(draft.source.replace_keyword(keyword, change.to, WHY))
    if change.value:
        draft.edits.append(draft.source.replace_node(keyword.value, change.value, WHY))


def _remove(draft: Draft, call: ast.Call, keyword: ast.keyword, change: Removed) -> None:
    why = f"transformers removed {keyword.arg}"
    edit = draft.source.remove_argument(call, keyword, why)
    if change.variable and is_replaced(draft, edit, keyword.value, change.variable):
        return
    if change.instead:
        draft.warn(keyword, f"{why}: {change.instead}")
        return
    if edit is None:
        draft.warn(keyword, f"{why}; remove it")
    else:
        draft.edits.append(edit)


def _judge_load(draft: Draft, call: ast.Call, function: ast.Attribute, target: Target) -> None:
    if not (draft.source.names.meaning(function.value) or "").startswith("transformers."):
        return
    if not target.at_least(*V5):
        return
    given = [each for each in call.keywords if each.arg in QUANTISING]
    others = any(each.arg == "quantization_config" for each in call.keywords)
    hint = "remove it: quantization_config is also given" if others else _bits_hint(draft, given)
    for keyword in given:
        draft.warn(keyword, f"transformers 5 removed {keyword.arg}", hint=hint)


def _bits_hint(draft: Draft, given: list[ast.keyword]) -> str:
    """Return a hint with a BitsAndBytesConfig that has the values of `load_in_8bit` and `load_in_4bit`.

    A BitsAndBytesConfig in which both options are False is no replacement: transformers then loads in 4 bits.
    """
    on = [each for each in given if not (isinstance(each.value, ast.Constant) and not each.value.value)]
    if not on:
        return "remove it: the model is not quantised"
    values = [(each, "True" if constant_of(each.value) is True else _text(draft, each.value)) for each in on]
    config = f"BitsAndBytesConfig({', '.join(f'{each.arg}={value}' for each, value in values)})"
    if any(value == "True" for _, value in values):
        return f"quantization_config={config}"
    return f"quantization_config={config} if {' or '.join(value for _, value in values)} else None"


def _text(draft: Draft, value: ast.expr) -> str:
    """Return the expression on one line, in parentheses if it binds less strongly than `or`."""
    text = " ".join(draft.source.segment(value).split())
    return f"({text})" if isinstance(value, (ast.IfExp, ast.Lambda, ast.NamedExpr)) else text
