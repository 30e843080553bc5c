"""Reasons against float16 in the dtypes of weights: mixed precision may be off, or nothing casts trained weights."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from fixers.code.bf16_forms.loads import WHY_AUTO
from fixers.frame.change import FileChange
from fixers.frame.target import Target
from fixers.plans.doubts import Doubt
from fixers.plans.owners import Owners
from fixers.plans.programs import Program, imports_any
from fixers.plans.text_facts import TextFacts
from fixers.sources.expressions import tail_of
from fixers.sources.function_roles import casts_data, names_adapters
from fixers.sources.python import TREES
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable

WEIGHT_DTYPE = re.compile(
    rb"\b(?:torch_)?dtype[ ]*=[ ]*(?:getattr\([ ]*torch,[ ]*)?"
    rb"(?:\w+\.)*(?:args|config|cfg|conf|hparams|params|opts?)\.(\w+)"
)
"""Matches `torch_dtype=args.data_type`."""
OPTIONAL = re.compile(rb"(?:^|[(,])[ \t]*fp16[ ]*=[ ]*(?!True\b|False\b)\w", re.MULTILINE)
"""Matches an argument of a Trainer whose mixed precision is an option."""
FLOAT16 = re.compile(rb"(?<!b)float16|fp16|\.half\(")
SCALES_ITSELF = re.compile(
    rb"GradScaler|TrainingArguments|deepspeed|DeepSpeed|lightning|\bFabric\(|loss_scale|scale_loss"
)
OF_PRECISION = {"mixed_precision", "deepspeed_plugin", "deepspeed_plugins", None}
"""Arguments of an Accelerator that may select mixed precision. None: unpacked options."""
MIXED = re.compile(
    rb"""mixed[_-]precision["']?(?:[ \t]*[:=][ \t]*|[ \t]+)["']?(?!no\b|None\b|null\b|false\b|False\b)[\w$]"""
    rb"""|["']?(?:fp|bf)16["']?[ \t]*:[ \t]*(?:\{|\r?\n[ \t]+enabled\b)|ACCELERATE_MIXED_PRECISION"""
)
"""Matches a setting of Accelerate, and the block of a config of DeepSpeed."""
OFF = re.compile(
    rb"""^[ \t"']*(?:use_|enable_)?(?:mixed_precision|amp|autocast)["']?(?:[ \t]*:[ \t]*bool)?[ \t]*[:=][ \t]*["']?"""
    rb"""(?:[Ff]alse|no)\b""",
    re.MULTILINE,
)
OF_WEIGHTS = re.compile(rb"(?!\w*(?:mixed|amp|autocast|compute))\w*dtype")
STAYS_FROZEN = re.compile(rb"\.eval\(\)|requires_grad_\([ ]*False|no_grad|inference_mode")
TRUE_WORD = b"bf16-true"
ASSIGNS = re.compile(rb"\bassign[ ]*=[ ]*True\b")
SELECTED = re.compile(rb"(\w+)[\"']?[ \t]*(?::[ \t]*str[ \t]*=|[:=])[ \t]*[\"']?(?:torch\.)?float16\b")


def of_weights(program: Program, own: Sequence[FileChange], target: Target, owners: Owners) -> Iterator[Doubt]:
    """Yield the doubts about float16 that the dtypes of the program's weights raise."""
    option = _half_weights(program, own, owners.facts) or _without_autocast(own)
    if option:
        yield Doubt(f"{option} sets the dtype of its weights, and mixed precision may be off", program.entry)
    if where := _unscaled_accelerator(program, own, owners):
        yield Doubt(f"nothing selects mixed precision for its Accelerator ({where}), which then scales no loss", where)
    if where := _trained_load(program, own, target, owners):
        yield Doubt(f"the weights that {where} loads would be trained in float16: nothing casts them to float32", where)
    if where := _assigned_weights(program, own, owners):
        yield Doubt(f"{where} gives its weights the dtype of a checkpoint, and 16-mixed does not cast them", where)


def _half_weights(program: Program, own: Sequence[FileChange], facts: TextFacts) -> str:
    """Return the option that selects float16 weights after the changes, or "" if there is none.

    The gradients of these weights are float16, and they are not scaled where mixed precision is off.
    """
    selected = {name for change in own for name in _selected(change)}
    if not selected:
        return ""
    if not any(facts.of(path, _has_optional_precision) for path in program.paths):
        return ""
    named = {name for path in program.paths for name in facts.of(path, _dtypes_of_weights)}
    return min((name.decode() for name in named & selected), default="")


def _has_optional_precision(text: bytes) -> bool:
    return b"TrainingArguments(" in text and OPTIONAL.search(text) is not None


def _dtypes_of_weights(text: bytes) -> frozenset[bytes]:
    return frozenset(WEIGHT_DTYPE.findall(text))


def _unscaled_accelerator(program: Program, own: Iterable[FileChange], owners: Owners) -> str:
    """Return the line that creates an Accelerator without mixed precision, if the changes select float16.

    Return "" if an argument, a command, a document or a config selects mixed precision, or if other code of the program
    may scale the loss.
    """
    if not imports_any(program, {"accelerate"}) or not any(map(_selects_half, own)):
        return ""
    code = [path for path in program.paths if path.endswith(".py")]
    if any(owners.facts.of(path, _scales_itself) for path in code):
        return ""
    creating = (path for path in code if owners.facts.of(path, _creates_accelerator))
    lines = [line for path in creating for line in _accelerators(path, owners.read(path))]
    if not lines or not all(lines) or any(owners.facts.of(path, _is_mixed) for path, _ in owners.texts):
        return ""
    return lines[0]


def _scales_itself(text: bytes) -> bool:
    return SCALES_ITSELF.search(text) is not None


def _creates_accelerator(text: bytes) -> bool:
    return b"Accelerator(" in text


def _is_mixed(text: bytes) -> bool:
    return MIXED.search(text) is not None


def _selects_half(change: FileChange) -> bool:
    return len(FLOAT16.findall(change.after)) > len(FLOAT16.findall(change.before))


def _accelerators(path: str, text: bytes) -> list[str]:
    """Return the place of each call that creates an Accelerator, or "" for a call with an argument of its precision."""
    try:
        source = TREES.read(path, text)
    except Unparsable:
        return [""]
    calls = (each for each in source.names.of_type(ast.Call) if tail_of(each) == "Accelerator")
    return ["" if {each.arg for each in call.keywords} & OF_PRECISION else source.where(call) for call in calls]


def _trained_load(program: Program, own: Iterable[FileChange], target: Target, owners: Owners) -> str:
    """Return the file of a load that becomes float16, if other files train the model and none casts it, or "".

    The load had the dtype of the checkpoint, which may be float32. A file with a trainer is judged by the trainer.
    """
    judged = {each.path for each in program.modules if each.trains} | {*target.code_facts.deepspeed_only}
    trained = [each.path for each in own if each.path not in judged and _loads_trained_weights(each)]
    if not trained:
        return ""
    after = {each.path: each.after for each in own}
    texts = (after.get(path) or owners.read(path) for path in program.paths if path.endswith(".py"))
    return "" if any(map(casts_data, texts)) else min(trained)


def _loads_trained_weights(change: FileChange) -> bool:
    """Return True if the change gives a load its dtype, and the file names neither adapters nor frozen weights."""
    if not any(WHY_AUTO in each for each in change.why) or names_adapters(change.before):
        return False
    return STAYS_FROZEN.search(change.before) is None


def _assigned_weights(program: Program, own: Sequence[FileChange], owners: Owners) -> str:
    """Return the line that gives the weights the dtype of a checkpoint, if a change replaces Lightning's `bf16-true`.

    Return "" if there is none. `bf16-true` would cast these weights, but `16-mixed` does not.
    """
    if not any(TRUE_WORD in change.before and TRUE_WORD not in change.after for change in own):
        return ""
    for path, data in owners.texts:
        found = ASSIGNS.search(data) if path.endswith(".py") and b"load_state_dict" in data else None
        if found and program in (owners.of(path, data) or ()):
            return f"{path}:{line_of(data, found.start())}"
    return ""


def _without_autocast(own: Iterable[FileChange]) -> str:
    """Return the option that a change sets to float16 in a file that turns mixed precision off, or ""."""
    named = (name for change in own if OFF.search(change.after) for name in _selected(change))
    return min((name.decode() for name in named if OF_WEIGHTS.fullmatch(name)), default="")


def _selected(change: FileChange) -> Iterable[bytes]:
    """Yield the options that a changed line sets to float16."""
    before = set(change.before.splitlines())
    for line in change.after.splitlines():
        if line not in before and (found := SELECTED.search(line)):
            yield found[1]
