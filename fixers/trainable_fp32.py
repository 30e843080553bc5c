"""trainable-fp32: what is trained is float32 before an optimizer takes it.

What it does
    On a card below compute capability 8.0, where a file uses half precision or adapters, a loop that makes every
    trainable parameter float32 is put before the optimizer or trainer is made: after the last adapter load, cast or
    resume, and before the model is sharded or replicated. Where a trainer attaches the adapter itself, the loop stands
    after it; where a model is cast once more behind its optimizer, behind that. A loop or call that does this already,
    at the right place, is recognised. Frozen weights stay float16.

Why
    Under float16 autocast a GradScaler unscales gradients, and it refuses float16 ones: `Attempting to unscale FP16
    gradients.` Turning bfloat16 into float16 creates exactly that state. Without a scaler, AdamW on float16 weights
    divides by zero and the loss becomes NaN, which Trainer logs as 0.0.

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
    Memory: trainable weights take four bytes each instead of two. An optimizer that keeps float32 copies of its own
    then has two of them.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.source_fixer import BFLOAT16_SINCE, NOTHING, Rewrite
from fixers.sources.python import PythonSource, reads_python
from fixers.sources.source import Source
from fixers.sources.splice import Edit, line_of
from fixers.sources.training_setup import (
    SIMPLE,
    Consumer,
    block_of,
    changes_dtype,
    consumers_of,
    function_of,
    is_cast,
    is_library_trainer,
    tail_of,
    wraps_model,
)
from fixers.target import Target
from remote.protocol.findings import Finding, Severity

name = "trainable-fp32"
version = 1
safety = "safe"
needles = (b"Trainer", b"optim", b"Adam", b"SGD", b"Adafactor", b"Lion")
below = BFLOAT16_SINCE
brings: tuple[str, ...] = ()
matches = reads_python

TRAINS_IN_HALF = re.compile(
    rb"float16|fp16|\.half\(\)|GradScaler|16-mixed|get_peft_model|load_adapter|PeftModel|mixed_precision"
)
MAKES_OPTIMIZER = re.compile(rb"\w*Trainer\(|(?:Adam|SGD|Adafactor|Lion|RMSprop|Adagrad|LAMB)\w*\(")
OWN_MASTER_WEIGHTS = re.compile(rb"deepspeed\.initialize\(")
LOOP = ("for {each} in {owner}.parameters():  # a loss scaler refuses float16 gradients",)
BODY = ("    if {each}.requires_grad:", "        {each}.data = {each}.data.float()")
WHY = "trainable parameters are float32 before the optimizer takes them"
EACH = ("parameter", "trainable_parameter", "trained_parameter")


def rewrite(source: Source, target: Target) -> Rewrite:
    """A float32 cast of the trainables wherever an optimizer or a trainer is made of a half precision model."""
    if not (TRAINS_IN_HALF.search(source.data) and MAKES_OPTIMIZER.search(source.data)):
        return NOTHING
    if OWN_MASTER_WEIGHTS.search(source.data):
        return NOTHING
    python = source.python
    edits: list[Edit] = []
    findings: list[Finding] = []
    for group in _groups(python):
        made, told = _cast(python, group)
        edits += made
        findings += told
    return Rewrite(_joined(edits), tuple(findings))


def _groups(python: PythonSource) -> Iterator[tuple[Consumer, ...]]:
    """Consumers of the same model in the same function belong together."""
    groups: dict[tuple[ast.AST, str, ast.AST | None], list[Consumer]] = {}
    for consumer in consumers_of(python):
        alone = consumer.call if not consumer.owner else None
        groups.setdefault((function_of(python, consumer.call), consumer.owner, alone), []).append(consumer)
    yield from (tuple(group) for group in groups.values())


def _cast(python: PythonSource, group: tuple[Consumer, ...]) -> tuple[list[Edit], list[Finding]]:
    first = group[0]
    if not first.owner:
        return _cast_after(python, first) if first.trainer else ([], [_told(python, first)])
    if any(not isinstance(consumer.statement, SIMPLE) for consumer in group):
        return [], [_told(python, first)]
    edits: list[Edit] = []
    findings: list[Finding] = []
    for statement in _statements(python, group):
        place, owner = _before_wrap(python, statement, first.owner)
        if _is_done(python, place, owner):
            continue
        edit = python.insert_before(place, _lines(python, place, owner), WHY)
        edits += [edit] if edit is not None else []
        findings += [] if edit is not None else [_told(python, first)]
    return edits + _cast_again(python, group[-1]), findings


def _cast_again(python: PythonSource, consumer: Consumer) -> list[Edit]:
    """A model that is cast once more, after its optimizer exists, is put right behind that cast."""
    edits: list[Edit] = []
    for call in python.names.of_type(ast.Call):
        statement = python.names.statement(call)
        same = function_of(python, call) is function_of(python, consumer.call)
        if not same or call.lineno <= consumer.call.lineno or not isinstance(statement, SIMPLE):
            continue
        if tail_of(call) in ("to", "half") and changes_dtype(python, call, consumer.owner):
            block = block_of(python, statement)
            behind = block[block.index(statement) + 1 :][:1]
            edit = python.insert_after(statement, _lines(python, statement, consumer.owner), WHY)
            if edit is not None and not any(is_cast(python, each, consumer.owner) for each in behind):
                edits.append(edit)
    return edits


def _cast_after(python: PythonSource, consumer: Consumer) -> tuple[list[Edit], list[Finding]]:
    """A trainer that builds or wraps its model itself is cast once it exists: its optimizer is made in `train()`."""
    statement = consumer.statement
    knows_model = is_library_trainer(python, consumer.call)
    rebuilds = any(keyword.arg == "model_init" for keyword in consumer.call.keywords)
    if not isinstance(statement, ast.Assign) or statement.value is not consumer.call or len(statement.targets) != 1:
        return [], [_told(python, consumer)]
    if rebuilds or not knows_model:
        return [], [_told(python, consumer)]
    target = statement.targets[0]
    if not isinstance(target, (ast.Name, ast.Attribute)):
        return [], [_told(python, consumer)]
    owner = f"{python.segment(target)}.model"
    block = block_of(python, statement)
    if any(is_cast(python, later, owner) for later in block[block.index(statement) + 1 :]):
        return [], []
    edit = python.insert_after(statement, _lines(python, statement, owner), WHY)
    return ([edit], []) if edit is not None else ([], [_told(python, consumer)])


def _statements(python: PythonSource, group: tuple[Consumer, ...]) -> list[ast.stmt]:
    """Where casts belong: one place for all consumers, or one for each where a load stands between."""
    common = _common_statement(python, [consumer.statement for consumer in group])
    loads = [call for call in _calls(common) if changes_dtype(python, call, group[0].owner)]
    if any(load is not consumer.call for load in loads for consumer in group):
        return [consumer.statement for consumer in group]
    return [common]


def _common_statement(python: PythonSource, statements: list[ast.stmt]) -> ast.stmt:
    """The innermost statement of one block that comes before, or holds the first of, all of these."""
    chains = [[each, *(a for a in python.names.ancestors(each) if isinstance(a, ast.stmt))] for each in statements]
    blocks = [{id(block_of(python, step)): step for step in chain} for chain in chains]
    for step in chains[0]:
        block = id(block_of(python, step))
        if all(block in each for each in blocks) and not _is_elif(python, step):
            return min((each[block] for each in blocks), key=lambda found: found.lineno)
    return statements[0]


def _is_elif(python: PythonSource, statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and python.segment(statement).startswith("elif")


def _before_wrap(python: PythonSource, place: ast.stmt, owner: str) -> tuple[ast.stmt, str]:
    """Where the model is wrapped earlier in the same block, the cast belongs before that, under the inner name."""
    block = block_of(python, place)
    for earlier in reversed(block[: block.index(place)]):
        for call in _calls(earlier):
            inner = _wrapped(python, earlier, call, owner)
            if inner is not None and isinstance(earlier, SIMPLE):
                return _before_wrap(python, earlier, inner)
            if inner is not None and _assigned_before(python, earlier, inner):
                return _before_wrap(python, earlier, inner)
    return place, owner


def _wrapped(python: PythonSource, statement: ast.stmt, call: ast.Call, owner: str) -> str | None:
    """The name of the model that the call wraps, where the result is the owner or the owner itself is wrapped."""
    if wraps_model(python, call, owner):
        return owner
    if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
        given = [python.segment(each) for each in call.args[:1] if isinstance(each, (ast.Name, ast.Attribute))]
        if given and python.segment(statement.targets[0]) == owner and wraps_model(python, call, given[0]):
            return given[0]
    return None


def _assigned_before(python: PythonSource, statement: ast.stmt, owner: str) -> bool:
    block = block_of(python, statement)
    root = owner.partition(".")[0]
    function = function_of(python, statement)
    if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        if root in {argument.arg for argument in arguments}:
            return True
    earlier = block[: block.index(statement)]
    return any(
        isinstance(node, ast.Name) and node.id == root and isinstance(node.ctx, ast.Store)
        for each in earlier
        for node in ast.walk(each)
    )


def _is_done(python: PythonSource, place: ast.stmt, owner: str) -> bool:
    """Going back from the place, a cast of that model comes before anything that could undo it."""
    block = block_of(python, place)
    above = python.names.parent(place)
    for earlier in reversed(block[: block.index(place)]):
        if is_cast(python, earlier, owner):
            return True
        if any(changes_dtype(python, call, owner) for call in _calls(earlier)):
            return False
    if isinstance(above, ast.stmt) and not isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return _is_done(python, above, owner)
    return False


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    return (node for node in ast.walk(statement) if isinstance(node, ast.Call))


def _lines(python: PythonSource, place: ast.stmt, owner: str) -> tuple[str, ...]:
    bound = python.names.scopes[place].bindings
    each = next((name for name in EACH if name not in bound), EACH[-1])
    return tuple(line.format(each=each, owner=owner) for line in (*LOOP, *BODY))


def _joined(edits: list[Edit]) -> tuple[Edit, ...]:
    """Insertions at one place become one edit, so that none overlaps."""
    joined: dict[int, Edit] = {}
    for edit in edits:
        earlier = joined.get(edit.start)
        whole = edit.replacement if earlier is None else earlier.replacement + edit.replacement
        joined[edit.start] = Edit(edit.start, edit.expected, whole, edit.why)
    return tuple(joined.values())


def _told(python: PythonSource, consumer: Consumer) -> Finding:
    where = f"{python.path}:{line_of(python.data, python.raw_offset(consumer.statement))}"
    message = "an optimizer or trainer is made here of a model that cannot be named; its trainables must be float32"
    hint = "cast parameters that require gradients with .data = .data.float() before this line"
    return Finding(name, Severity.WARNING, message, where, hint)
