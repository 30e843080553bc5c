"""trainable-fp32: trainable parameters are float32 before the optimizer is created.

What it does
    On a card below compute capability 8.0, inserts a loop that casts every trainable parameter to float32 before the
    optimizer or trainer is created. The loop comes after the last adapter load, cast or resume, and before the model is
    sharded, replicated or copied for averaging. If a trainer attaches the adapter, the loop follows the trainer. If a
    model is cast again after its optimizer was created, a loop follows that cast. An existing cast in the right place
    is recognised, also in all branches of an `if` and in functions of other files.

    A model is cast only if its weights may be half precision: the file, or a class or function of the project that the
    file uses, casts the model to half precision, loads it in half precision, or loads it without a dtype (transformers
    5 then uses the dtype of the checkpoint). Frozen weights stay float16, with one exception: FullyShardedDataParallel
    (also by `TrainingArguments(fsdp=...)`) stores frozen and trainable parameters in one tensor, so all parameters
    become float32. With `mixed_precision: fp16`, FSDP still computes in float16.

    Adapters of PEFT are float32 already if PEFT is version 0.12 or newer, which casts them, or if each load of the base
    model is in 4 or 8 bits. They are cast only if the file also trains weights of the base model (`modules_to_save`),
    or if TRL 0.26 or newer may cast adapters of a quantised model to bfloat16. TRL loads a model by name in half
    precision only in version 0.26, or with `model_init_kwargs`. Versions are those of the host, or else those that the
    requirements or the notebook pin; an unknown version is assumed to be the newest.

    Not changed:

    * Float32 models that are never cast, or cast only to bfloat16, or only for an evaluation after the training.
    * Models that are loaded without a dtype in a file that only runs with transformers 4.
    * Models of unsloth; models that are only saved or tested; models passed with an optimizer to a project's trainer.
    * Models that the file casts to float32 between the creation of the optimizer and the training.
    * Models in files that get no other change, unless a setting of the program selects float16.
    * Models of DeepSpeed, which keeps float32 copies: the file imports DeepSpeed's `initialize`, the project's own code
      passes the model and its optimizer only to DeepSpeed's engine, or every command, documentation file and config
      that starts the script uses DeepSpeed.

    If only some commands that start the script use DeepSpeed, the loop skips parameters that ZeRO 3 has partitioned.
    A warning is reported if Accelerate prepares a model whose `encode` or `decode` is called outside autocast.

Why
    A GradScaler refuses to unscale float16 gradients: `Attempting to unscale FP16 gradients.` Replacing bfloat16 with
    float16 leads to this error. Without a scaler, AdamW on float16 weights divides by zero, and the loss becomes NaN,
    which Trainer logs as 0.0.

Before
    model = get_peft_model(model, config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)

After
    model = get_peft_model(model, config)
    for parameter in model.parameters():  # a loss scaler refuses float16 gradients
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)

What it can break
    Memory: trainable weights take four bytes each instead of two. If the optimizer keeps float32 copies, these weights
    exist in float32 twice.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from fixers.code.draft import Draft, joined
from fixers.code.float32_need import adapters_are_float32, imported_of, needs_float32
from fixers.code.method_calls import CALL_BY_HAND, OUTSIDE_AUTOCAST, call_outside_autocast
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.sources.expressions import tail_of
from fixers.sources.float_casts import ADAPTERS, is_cast, is_cast_before
from fixers.sources.later_casts import is_called_later, is_cast_again, is_cast_later
from fixers.sources.lines import holds_any, lines_with
from fixers.sources.model_wraps import before_wrap, calls_in, flattening, shards_by_arguments
from fixers.sources.python import PythonSource, reads_python
from fixers.sources.source import Source
from fixers.sources.splice import Edit
from fixers.sources.training_setup import (
    SIMPLE,
    Consumer,
    block_of,
    changes_dtype,
    consumers_of,
    function_of,
    is_fabric_setup,
    is_library_trainer,
)
from remote.policy.precision import BF16_FROM
from remote.protocol.dataclass import dataclass

name = "trainable-fp32"
safety = "safe"
needles = (b"Trainer", b"optim", b"Adam", b"SGD", b"Adafactor", b"Lion")
below = BF16_FROM
requires: tuple[str, ...] = ()
matches = reads_python

TRAINS_IN_HALF = (
    *(b"float16", b"fp16", b".half()", b"GradScaler", b"16-mixed", b"get_peft_model", b"load_adapter", b"PeftModel"),
    *(b"mixed_precision", b"HfArgumentParser", b"TrlParser"),
)
OPTIMIZERS = (b"Trainer(", b"Adam", b"SGD", b"Adafactor", b"Lion", b"RMSprop", b"Adagrad", b"LAMB")
MAKES_OPTIMIZER = re.compile(rb"Trainer\(|(?:Adam|SGD|Adafactor|Lion|RMSprop|Adagrad|LAMB)\w*\(")
OWN_MASTER_WEIGHTS = re.compile(rb"deepspeed\.initialize\(|from[ ]+deepspeed[ ]+import[ ][^\n]*\binitialize\b")
PLACEHOLDER = "DummyOptim"
"""Accelerate's placeholder for the optimizer in a DeepSpeed config; DeepSpeed itself keeps float32 master weights."""
TRAINABLES = (
    "for {each} in {owner}.parameters():  # a loss scaler refuses float16 gradients",
    "    if {each}.requires_grad:",
    "        {each}.data = {each}.data.float()",
)
UNPARTITIONED = (
    TRAINABLES[0],
    '    if {each}.requires_grad and not hasattr({each}, "ds_id"):  # ZeRO 3 keeps float32 copies itself',
    TRAINABLES[2],
)
"""ZeRO 3 rejects a partitioned parameter that is not float16."""
ALL = (
    "for {each} in {owner}.parameters():  # FSDP flattens parameters of one dtype",
    "    {each}.data = {each}.data.float()",
)
BUILDS = re.compile(rb"[Oo]ptim\w*\(")
SETS_RATE = re.compile(rb"\b(?:lr|learning_rate)[ ]*=|optim\w*\(\s*[\w.]+\.parameters\(")
WHY = "trainable parameters are float32 before the optimizer is created"
UNNAMED_MODEL = (
    "the model of this optimizer or trainer is not assigned to a name; its trainable parameters must be float32"
)
SHARED_LINE = (
    "no line can be inserted here, because this line has several statements; trainable parameters must be float32"
)
SHARDED_BY_FABRIC = "FSDP shards the model here, in one dtype; trainable parameters must be float32 before this line"
CAST_BY_HAND = "cast parameters that require gradients with .data = .data.float() before this line"
EACH = ("parameter", "trainable_parameter", "trained_parameter")


@dataclass(frozen=True)
class _Project:
    """`casters`: functions in other files after which trainable weights are float32. `lines`: the lines to insert."""

    casters: tuple[str, ...]
    lines: tuple[str, ...]


def rewrite(source: Source, target: Target) -> Rewrite:
    """Cast trainable parameters to float32 before the optimizer or trainer of a half-precision model is created."""
    return _rewrite(source, target) if holds_any(source.searched, TRAINS_IN_HALF) else NOTHING


def may_train_half(source: Source, target: Target) -> bool:
    """Return True if the file may train half-precision weights that it does not cast to float32."""
    missing = _rewrite(source, target)
    return bool(missing.edits or missing.findings)


def _rewrite(source: Source, target: Target) -> Rewrite:
    if not _may_make_optimizer(source.searched):
        return NOTHING
    if OWN_MASTER_WEIGHTS.search(source.searched):
        return NOTHING
    draft = Draft(source.python, name)
    traits = target.code_facts.traits
    lines = UNPARTITIONED if traits.may_use_deepspeed else TRAINABLES
    casters = tuple(imported_of(draft.source, traits.float_casters, target.code_facts.namesakes))
    project = _Project(casters, lines)
    for group in _groups(draft.source):
        if needs_float32(draft.source, group[0], target):
            float32 = adapters_are_float32(draft.source, group[0].owner, target)
            _cast(draft, group, replace(project, casters=(*casters, ADAPTERS)) if float32 else project)
    return Rewrite(joined(draft.edits), tuple(draft.findings))


def _may_make_optimizer(data: bytes) -> bool:
    if MAKES_OPTIMIZER.search(lines_with(data, OPTIMIZERS)) or BUILDS.search(lines_with(data, (b"ptim",))):
        return True
    return b"parameters(" in data and SETS_RATE.search(data) is not None


def _groups(python: PythonSource) -> Iterator[tuple[Consumer, ...]]:
    """Group the optimizers and trainers of the same model in the same function."""
    groups: dict[tuple[ast.AST, str, ast.AST | None], list[Consumer]] = {}
    for consumer in (each for each in consumers_of(python) if tail_of(each.call) != PLACEHOLDER):
        unnamed = consumer.call if not consumer.owner else None
        groups.setdefault((function_of(python, consumer.call), consumer.owner, unnamed), []).append(consumer)
    yield from (tuple(group) for group in groups.values())


def _cast(draft: Draft, group: tuple[Consumer, ...], project: _Project) -> None:
    python, first = draft.source, group[0]
    if not first.owner and first.trainer:
        _cast_after(draft, first, project)
    elif call := call_outside_autocast(python, first):
        draft.warn(call, OUTSIDE_AUTOCAST, hint=CALL_BY_HAND)
    elif not first.owner or any(not isinstance(consumer.statement, SIMPLE) for consumer in group):
        draft.warn(first.statement, UNNAMED_MODEL, hint=CAST_BY_HAND)
    else:
        for statement in _statements(python, group):
            _cast_before(draft, first, statement, project)
        draft.edits += _cast_again(python, group[-1], project)


def _cast_before(draft: Draft, consumer: Consumer, statement: ast.stmt, project: _Project) -> None:
    python = draft.source
    place, owner = before_wrap(python, statement, consumer.owner)
    flattened = _flattened(python, consumer, place, owner)
    casters = [each for each in project.casters if each != ADAPTERS or not flattened]
    if is_cast_before(python, place, owner, casters):
        return
    if not flattened and is_cast_later(python, statement, owner, casters):
        return
    if b"FSDPStrategy" in python.text and any(is_fabric_setup(python, call) for call in calls_in(place)):
        draft.warn(place, SHARDED_BY_FABRIC, hint=CAST_BY_HAND)
        return
    casts = [*([(place, project.lines)] if place not in flattened else []), *((flat, ALL) for flat in flattened)]
    for at, template in casts:
        _add(draft, consumer, python.insert_before(at, _lines(python, at, owner, template), WHY))


def _flattened(python: PythonSource, consumer: Consumer, place: ast.stmt, owner: str) -> list[ast.stmt]:
    """Return the statements before which all parameters are cast, because FSDP stores them in one tensor."""
    flattened = flattening(python, place, owner)
    return [place] if consumer.trainer and not flattened and shards_by_arguments(python) else flattened


def _add(draft: Draft, consumer: Consumer, edit: Edit | None) -> None:
    if edit is None:
        draft.warn(consumer.statement, SHARED_LINE, hint="put the statement on a separate line")
    else:
        draft.edits.append(edit)


def _cast_again(python: PythonSource, consumer: Consumer, project: _Project) -> list[Edit]:
    """Return the edits that cast to float32 after each half-precision cast that follows the optimizer."""
    edits: list[Edit] = []
    for call in python.names.of_type(ast.Call):
        statement = python.names.statement(call)
        same = function_of(python, call) is function_of(python, consumer.call)
        later = same and call.lineno > consumer.call.lineno
        if not (later or is_called_later(python, call, consumer)) or not isinstance(statement, SIMPLE):
            continue
        if tail_of(call) in ("to", "half") and is_cast_again(python, call, consumer.owner):
            block = block_of(python, statement)
            behind = block[block.index(statement) + 1 :][:1]
            edit = python.insert_after(statement, _lines(python, statement, consumer.owner, project.lines), WHY)
            if edit is not None and not any(is_cast(python, each, consumer.owner) for each in behind):
                edits.append(edit)
    return edits


def _cast_after(draft: Draft, consumer: Consumer, project: _Project) -> None:
    """Insert the cast after a trainer that builds or wraps the model: `train()` creates the optimizer later."""
    python, statement = draft.source, consumer.statement
    variable = _variable_of(consumer)
    rebuilds = any(keyword.arg == "model_init" for keyword in consumer.call.keywords)
    if variable is None or rebuilds or not is_library_trainer(python, consumer.call):
        draft.warn(statement, UNNAMED_MODEL, hint=CAST_BY_HAND)
        return
    owner = f"{python.segment(variable)}.model"
    block = block_of(python, statement)
    if not any(is_cast(python, later, owner, project.casters) for later in block[block.index(statement) + 1 :]):
        _add(draft, consumer, python.insert_after(statement, _lines(python, statement, owner, project.lines), WHY))


def _variable_of(consumer: Consumer) -> ast.Name | ast.Attribute | None:
    """Return the variable that the trainer is assigned to, or None if it is assigned to none or to several."""
    match consumer.statement:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as variable], value=value) if value is consumer.call:
            return variable
    return None


def _statements(python: PythonSource, group: tuple[Consumer, ...]) -> list[ast.stmt]:
    """Return where to cast: before all consumers, or before each one if a call between them may change the dtype."""
    common = _common_statement(python, [consumer.statement for consumer in group])
    loads = [call for call in calls_in(common) if changes_dtype(python, call, group[0].owner)]
    if any(load is not consumer.call for load in loads for consumer in group):
        return [consumer.statement for consumer in group]
    return [common]


def _common_statement(python: PythonSource, statements: list[ast.stmt]) -> ast.stmt:
    """Find the first statement that is or contains one of the statements, in the innermost block around them all."""
    chains = [[each, *(a for a in python.names.ancestors(each) if isinstance(a, ast.stmt))] for each in statements]
    blocks = [{id(block_of(python, step)): step for step in chain} for chain in chains]
    for step in chains[0]:
        block = id(block_of(python, step))
        if all(block in each for each in blocks) and not _is_elif(python, step):
            return min((each[block] for each in blocks), key=lambda found: found.lineno)
    return statements[0]


def _is_elif(python: PythonSource, statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and python.segment(statement).startswith("elif")


def _lines(python: PythonSource, place: ast.stmt, owner: str, template: tuple[str, ...]) -> tuple[str, ...]:
    bound = python.names.scopes[place].bindings
    each = next((name for name in EACH if name not in bound), EACH[-1])
    return tuple(line.format(each=each, owner=owner) for line in template)
