"""Find a module's trainers and optimizers with their models, and calls that change dtypes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from fixers.sources.expressions import assigned_before, is_path, tail_of, written
from fixers.sources.names import FUNCTIONS
from fixers.sources.optimized_models import are_float32, models_of_factory, named_owners
from fixers.sources.python import PythonSource
from remote.protocol.dataclass import dataclass

OPTIMIZERS = re.compile(
    r"(?:Paged)?(?:Adam|AdamW|Adamax|NAdam|RAdam|SGD|Adagrad|Adadelta|RMSprop|Rprop|Lion|Adafactor|LAMB|Lamb|FusedAdam)"
    r"(?:\d*bit|8bit)?$"
)
TRAINERS = re.compile(r"\w*Trainer$")
SAVES = re.compile(r"(?:^|_)(?:save|push)(?:_|$)")
OTHER_TRAINERS = ("lightning", "pytorch_lightning", "tokenizers", "ray", "composer")
WRAPS = frozenset(
    {"FSDP", "FullyShardedDataParallel", "DDP", "DistributedDataParallel", "fully_shard", "prepare", "prepare_model"}
)
LOADS = frozenset(
    {"get_peft_model", "load_adapter", "half", "from_pretrained", "add_adapter", "inject_adapter_in_model"}
)
UNWRAPS = frozenset({"unwrap_model", "extract_model_from_parallel"})
INNER = ("module", "_orig_mod")
NOT_TORCH = ("keras", "tensorflow", "optax", "flax", "jax", "mlx", "paddle", "mxnet")
NAME_OF_MODEL = re.compile(r"(?:name|path|id|repo|checkpoint|dir)$")
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
HALVES = ("torch.float16", "torch.half", "torch.bfloat16")


@dataclass(frozen=True)
class Consumer:
    """A call that creates an optimizer or a trainer.

    `owner` is the model's source text, or empty if the model has no name.
    """

    call: ast.Call
    statement: ast.stmt
    owner: str
    trainer: bool


def consumers_of(source: PythonSource) -> tuple[Consumer, ...]:
    """Return every trainer, and every optimizer with each of its models."""
    return source.remember("consumers", lambda: tuple(_find_consumers(source)))


def wraps_model(source: PythonSource, call: ast.Call, owner: str) -> bool:
    """Return True if the call shards, replicates or prepares the model. Casts must come before the call."""
    return is_wrap(source, call) and any(written(source, argument) == owner for argument in call.args)


def is_wrap(source: PythonSource, call: ast.Call) -> bool:
    """Return True for a call that shards, replicates or prepares a model, such as `fabric.setup`."""
    return tail_of(call) in WRAPS or is_fabric_setup(source, call)


def is_fabric_setup(source: PythonSource, call: ast.Call) -> bool:
    """Return True for `fabric.setup` and `fabric.setup_module` of Lightning."""
    if not isinstance(call.func, ast.Attribute) or tail_of(call) not in ("setup", "setup_module"):
        return False
    return written(source, call.func.value).rpartition(".")[2] == "fabric"


def changes_dtype(source: PythonSource, call: ast.Call, owner: str) -> bool:
    """Return True if the call adds an adapter or casts the model: trainable parameters may then be half precision."""
    tail = tail_of(call)
    touched = [written(source, argument) for argument in call.args]
    if isinstance(call.func, ast.Attribute):
        touched.append(written(source, call.func.value))
    if owner not in touched and not _is_assigned(source, call, owner):
        return False
    return tail in LOADS or (tail == "to" and casts_to_half(source, call))


def casts_to_half(source: PythonSource, call: ast.Call) -> bool:
    """Return True if the call has a half-precision dtype, or a variable that may hold one, as an argument."""
    values = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "dtype")]
    return any(source.names.meaning(v) in HALVES or _is_called_dtype(source, v) for v in values)


def _is_called_dtype(source: PythonSource, value: ast.expr) -> bool:
    """Return True if the value is a dtype that is chosen at run time: `args.dtype` or `getattr(torch, args.dtype)`."""
    match value:
        case ast.Call(func=ast.Name(id="getattr"), args=[module, name]) if source.names.meaning(module) == "torch":
            return not isinstance(name, ast.Constant)
    return written(source, value).endswith("dtype")


def is_same_model(source: PythonSource, expression: ast.expr, owner: str) -> bool:
    """Return True if the expression is the model, the unwrapped model, or another name of the model in the function."""
    match expression:
        case ast.Attribute(attr=attribute, value=inner) if attribute in INNER:
            return is_same_model(source, inner, owner)
        case ast.Call(args=[inner, *_]) if tail_of(expression) in UNWRAPS:
            return is_same_model(source, inner, owner)
        case ast.Name() | ast.Attribute() if written(source, expression) == owner:
            return True
        case ast.Name(id=name):
            values = [
                value for value in assigned_before(source, expression, name) if not mentions(source, [value], name)
            ]
            return any(is_same_model(source, value, owner) for value in values)
    return False


def _find_consumers(source: PythonSource) -> Iterator[Consumer]:
    for call in source.names.of_type(ast.Call):
        tail = tail_of(call)
        if TRAINERS.match(tail) and _is_trainer(source, call, tail):
            if not _is_only_saved(source, call):
                yield Consumer(call, source.names.statement(call), _model_of_trainer(source, call), True)
        else:
            for owner in _models_optimized(source, call, tail):
                yield Consumer(call, source.names.statement(call), owner, False)


def _models_optimized(source: PythonSource, call: ast.Call, tail: str) -> Iterable[str]:
    """Return the models for which the call creates an optimizer, or nothing if it optimizes float32 copies."""
    if OPTIMIZERS.match(tail) and (call.args or call.keywords) and _is_of_torch(source, call):
        return () if are_float32(source, call) else _owners(source, call)
    if _is_optimizer_call(source, call, tail) and not are_float32(source, call):
        return named_owners(source, call) or models_of_factory(source, call, tail)
    return ()


def _is_trainer(source: PythonSource, call: ast.Call, tail: str) -> bool:
    meaning = source.names.meaning(call.func)
    if meaning is not None and meaning.startswith(OTHER_TRAINERS):
        return False
    definitions = [node for node in source.names.of_type(ast.ClassDef) if node.name == tail]
    if definitions:
        return any(TRAINERS.match(written(source, base).rpartition(".")[2]) for base in definitions[0].bases)
    return is_library_trainer(source, call) or any(keyword.arg == "model" for keyword in call.keywords)


def _is_only_saved(source: PythonSource, call: ast.Call) -> bool:
    """Return True if the function only saves with the trainer: it calls `trainer.save_state()`, but no `train()`."""
    match source.names.statement(call):
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is call:
            bindings = source.names.scopes[call].bindings
        case _:
            return False
    uses = [each for each in source.names.of_type(ast.Name) if each.id == name and isinstance(each.ctx, ast.Load)]
    own = [each for each in uses if name not in (other := source.names.scopes[each].bindings) or other is bindings]
    return bool(own) and all(_saves(source, each) for each in own)


def _saves(source: PythonSource, trainer: ast.Name) -> bool:
    """Return True if the trainer is used in `trainer.save_model()`, or is the argument of a function that saves."""
    above: ast.AST | None = source.names.parent(trainer)
    if isinstance(above, (ast.Attribute, ast.keyword)):
        above = above if isinstance(above, ast.Attribute) else source.names.parent(above)
    name = above.attr if isinstance(above, ast.Attribute) else tail_of(above) if isinstance(above, ast.Call) else ""
    return SAVES.search(name) is not None


def is_library_trainer(source: PythonSource, call: ast.Call) -> bool:
    """Return True for a trainer of transformers or TRL: it has `.model` and creates its optimizer in `train()`."""
    return (source.names.meaning(call.func) or "").startswith(("transformers.", "trl."))


def _model_of_trainer(source: PythonSource, call: ast.Call) -> str:
    """Return the name of the model passed to the trainer, or an empty string if the trainer creates the adapter."""
    if any(keyword.arg == "peft_config" for keyword in call.keywords):
        return ""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "model"]
    if (source.names.meaning(call.func) or "").startswith("transformers."):
        given += call.args[:1]
    return written(source, given[0]) if given and _is_model(source, given[0]) else ""


def _is_model(source: PythonSource, node: ast.expr) -> bool:
    """Return True for a variable that contains a model, and False for a variable that contains the name of a model."""
    if not is_path(node) or is_model_name(source, node):
        return False
    return (
        not isinstance(node, ast.Attribute) or written(source, node).startswith("self.") or node.attr.endswith("model")
    )


def is_model_name(source: PythonSource, node: ast.expr) -> bool:
    """Return True for a string, and for a variable that contains the name of a model."""
    if _is_text(node) or (is_path(node) and NAME_OF_MODEL.search(written(source, node))):
        return True
    if not isinstance(node, ast.Name):
        return False
    return any(_is_text(value) for value in assigned_before(source, node, node.id))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_of_torch(source: PythonSource, call: ast.Call) -> bool:
    return not (source.names.meaning(call.func) or "").startswith(NOT_TORCH)


def _is_optimizer_call(source: PythonSource, call: ast.Call, tail: str) -> bool:
    """Return True if the call has a learning rate or a name that is common for optimizers."""
    has_learning_rate = any(keyword.arg in ("lr", "learning_rate") for keyword in call.keywords)
    return (has_learning_rate or "optim" in tail.lower()) and _is_of_torch(source, call)


def _owners(source: PythonSource, call: ast.Call) -> tuple[str, ...]:
    """Return the models whose parameters are passed to the call, or `("",)` if no model is found."""
    return named_owners(source, call) or ("",)


def _is_assigned(source: PythonSource, call: ast.Call, owner: str) -> bool:
    statement = source.names.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(written(source, target) == owner for target in targets)


def mentions(source: PythonSource, expressions: list[ast.expr], owner: str) -> bool:
    """Return True if one of the expressions contains the name `owner`, or if `owner` is empty."""
    if not owner:
        return True
    parts = (node for expression in expressions for node in ast.walk(expression))
    return any(isinstance(node, (ast.Name, ast.Attribute)) and written(source, node) == owner for node in parts)


def block_of(source: PythonSource, statement: ast.stmt) -> list[ast.stmt]:
    """Return the block (a list of statements) that contains the statement."""
    above = source.names.parent(statement)
    for name in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(above, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return [statement]


def function_of(source: PythonSource, node: ast.AST) -> ast.AST:
    """Return the function or module that contains the node. Lambdas are skipped."""
    found = source.names.function(node)
    while isinstance(found, ast.Lambda):
        found = source.names.function(found)
    assert isinstance(found, (*FUNCTIONS, ast.Module))
    return found
