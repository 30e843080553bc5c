"""Decide whether the model of an optimizer or trainer must be cast to float32."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from posixpath import basename, commonprefix, dirname, splitext

from fixers.code.autocasts import dtype_of
from fixers.frame.target import Target
from fixers.sources.adapters import is_adapter_config, is_quantised, may_quantise, trains_only_adapters
from fixers.sources.expressions import tail_of, written
from fixers.sources.finished_setups import (
    has_optimizer_argument,
    is_given_to,
    is_prepared_with_optimizer,
    is_tested_in_half,
)
from fixers.sources.float_models import is_float32
from fixers.sources.half_models import may_be_half, stays_bfloat16
from fixers.sources.python import PythonSource
from fixers.sources.trainer_names import ARGUMENTS, TRAINER
from fixers.sources.training_setup import Consumer, is_library_trainer, is_model_name

HALVES = frozenset({"half", "float16", "bfloat16"})
OLD_ARGUMENTS = {
    "TrainingArguments": frozenset(
        name for name, each in ARGUMENTS.items() if each.package == "transformers" and each.since <= (5,)
    ),
    "Trainer": frozenset(TRAINER),
}
"""The arguments that transformers 5 rejects, by the tail of the callee."""
OLD_IMPORTS = frozenset(
    {
        *("transformers.AdamW", "transformers.optimization.AdamW", "transformers.utils.get_full_repo_name"),
        *("transformers.utils.send_example_telemetry", "huggingface_hub.Repository", "huggingface_hub.HfFolder"),
    }
)
"""Names that transformers 5, and the huggingface_hub that it requires, no longer have."""
PEFT_CASTS = (0, 12)
TRL_LOADS_AUTO = TRL_NARROWS = (0, 26)
TRL_LOADS_FLOAT32 = (0, 27)
"""The first version of PEFT that casts adapters to float32; the first version of TRL that casts adapters of quantised
models to bfloat16 and loads models by name in the dtype of the checkpoint; and the first that loads them in float32. An
unknown version is assumed to be the newest."""
LOADS_HALF = re.compile(r"(?:\w+_)?dtype$|load_in_[48]bit$|quantization_config$")


def needs_float32(source: PythonSource, consumer: Consumer, target: Target) -> bool:
    """Return True if the model may have half-precision weights.

    With transformers 5, this includes most models that are loaded without a dtype. Return False if every command starts
    the training with DeepSpeed (its fp16 engine keeps float32 copies), or if the file casts the model only to bfloat16
    (there is no loss scaler). If the `command:` of the halfstep config names a file of the project, neither of these
    two exceptions applies.
    """
    if source.path in target.code_facts.deepspeed_only and not target.started:
        return False
    facts = target.code_facts
    owner, call = consumer.owner, consumer.call
    half_makers = tuple(imported_of(source, facts.half_models, facts.namesakes))
    if _is_too_late(source, consumer) or is_tested_in_half(source, owner, call):
        return False
    if is_given_to(source, consumer, tuple(imported_of(source, facts.engines, facts.namesakes))):
        return False
    if _is_of_unsloth(source, owner):
        return False
    if stays_bfloat16(source, owner) and not target.started:
        return False
    if not owner and not consumer.trainer and not _names_half(source, half_makers):
        return False
    if not owner:
        return not (consumer.trainer and _builds_float32(source, consumer, target))
    return _may_be_half(source, consumer, owner, target)


def _may_be_half(source: PythonSource, consumer: Consumer, owner: str, target: Target) -> bool:
    """Return True if the model `owner`, which the optimizer or the trainer gets, may be half precision."""
    facts, call, loads_float32 = target.code_facts, consumer.call, loads_in_float32(source, target)
    half_makers = tuple(imported_of(source, facts.half_models, facts.namesakes))
    if is_float32(source, owner, call, half_makers, speech=not facts.traits.half_speech):
        return False
    if _is_of_library(source, consumer) and not loads_float32:
        return True
    return may_be_half(source, owner, call, half_makers, loads_float32=loads_float32)


def adapters_are_float32(source: PythonSource, owner: str, target: Target) -> bool:
    """Return True if PEFT creates float32 adapters for the model, and the file trains no other weights of it.

    Since version 0.12, PEFT casts adapters to float32. Older versions create them in the dtype of the layer, if it is a
    floating-point dtype: the layers of a quantised model are integers.
    """
    casts = target.at_least("peft", PEFT_CASTS) is not False
    return trains_only_adapters(source) and (casts or is_quantised(source, owner))


def _builds_float32(source: PythonSource, consumer: Consumer, target: Target) -> bool:
    """Return True if a trainer that loads the model by name, or adds adapters to it, trains float32 weights."""
    options = {each.arg: each.value for each in consumer.call.keywords if each.arg}
    model = options.get("model") or next(iter(consumer.call.args), None)
    is_of_trl = (source.names.meaning(consumer.call.func) or "").startswith("trl.")
    if model is None or not is_of_trl:
        return False
    if may_quantise(source) and target.at_least("trl", TRL_NARROWS) is not False:
        return False
    if is_model_name(source, model):
        return b"model_init_kwargs" not in source.data and _loads_name_in_float32(source, target)
    owner, config = written(source, model), options.get("peft_config")
    if not owner:
        return False
    if config is not None and is_adapter_config(source, config) and adapters_are_float32(source, owner, target):
        return True
    return not _may_be_half(source, consumer, owner, target)


def _loads_name_in_float32(source: PythonSource, target: Target) -> bool:
    """Return True if TRL loads a model by name in float32: by its own default, or by that of transformers."""
    if target.at_least("trl", TRL_LOADS_FLOAT32) is not False:
        return True
    return not target.at_least("trl", TRL_LOADS_AUTO) and loads_in_float32(source, target)


def loads_in_float32(source: PythonSource, target: Target) -> bool:
    """Return True if transformers loads models without a dtype in float32: it is older than version 5.

    If the version is unknown, imports and arguments that version 5 rejects show that the file runs with an older one.
    """
    newer = target.at_least("transformers", (5,))
    if newer is not None:
        return not newer
    return _imports_removed(source) or any(_is_rejected(source, each) for each in source.names.of_type(ast.Call))


def _imports_removed(source: PythonSource) -> bool:
    imports = source.names.of_type(ast.ImportFrom)
    return any(f"{each.module}.{alias.name}" in OLD_IMPORTS for each in imports for alias in each.names)


def _is_rejected(source: PythonSource, call: ast.Call) -> bool:
    """Return True for a call of transformers with an argument that version 5 rejects."""
    known = OLD_ARGUMENTS.get(tail_of(call).removeprefix("Seq2Seq"), frozenset())
    return any(each.arg in known for each in call.keywords) and (
        (source.names.meaning(call.func) or "").startswith("transformers.")
    )


def imported_of(source: PythonSource, functions: tuple[str, ...], namesakes: Sequence[str] = ()) -> Iterator[str]:
    """Yield the names of the functions and classes (`path:name`) that this file may use.

    `from speech.build import load` may import `load` from speech/build.py or from a file in a folder `build`. Of
    several files with this name (`namesakes`), it imports the nearest one.
    """
    modules: dict[str, str] = {}
    for statement in source.names.of_type(ast.ImportFrom):
        within = (statement.module or "").rpartition(".")[2]
        modules |= {alias.asname or alias.name: within for alias in statement.names}
    for each in functions:
        path, _, name = each.rpartition(":")
        module = modules.get(name)
        if not module or (
            module in splitext(path)[0].split("/") and not _has_nearer(source.path, path, module, namesakes)
        ):
            yield name


def _has_nearer(importer: str, path: str, module: str, namesakes: Iterable[str]) -> bool:
    """Return True if another module of this name is nearer to the importing file than the module at `path`."""
    named = [each for each in namesakes if splitext(basename(each))[0] == module]
    return path in named and any(_shared(importer, each) > _shared(importer, path) for each in named)


def _shared(path: str, other: str) -> int:
    """Return the number of folders that the paths share."""
    return len(commonprefix([dirname(path).split("/"), dirname(other).split("/")]))


def _is_too_late(source: PythonSource, consumer: Consumer) -> bool:
    """Return True for a trainer with an existing optimizer, which is an argument or was returned by `prepare`."""
    if not consumer.trainer or _is_of_library(source, consumer):
        return False
    return has_optimizer_argument(consumer.call) or is_prepared_with_optimizer(source, consumer.owner, consumer.call)


def _is_of_unsloth(source: PythonSource, owner: str) -> bool:
    """Return True for a model that a function of unsloth returns: unsloth casts trained weights to float32."""
    made = (each for each in source.names.of_type(ast.Assign) if isinstance(each.value, ast.Call))
    return any(
        (source.names.meaning(each.value.func) or "").startswith("unsloth.")  # type: ignore[attr-defined]
        for each in made
        if owner in {written(source, part) for target in each.targets for part in ast.walk(target)}
    )


def _names_half(source: PythonSource, half_makers: tuple[str, ...]) -> bool:
    """Return True if the file names a half-precision dtype, may load in one, or calls one of `half_makers`.

    The dtype of autocast does not count: autocast does not change weights.
    """
    names = source.names
    of_autocast = {id(dtype_of(each)) for each in names.of_type(ast.Call) if tail_of(each) == "autocast"}
    attributes = (each.attr for each in names.of_type(ast.Attribute) if id(each) not in of_autocast)
    keywords = (each for each in names.of_type(ast.keyword) if LOADS_HALF.match(each.arg or ""))
    dtypes = {names.meaning(each.value) or "" for each in keywords}
    callees = {tail_of(call) for call in names.of_type(ast.Call)}
    if any(each in HALVES for each in attributes) or not all(each.startswith("torch.") for each in dtypes):
        return True
    return bool(callees.intersection(half_makers))


def _is_of_library(source: PythonSource, consumer: Consumer) -> bool:
    """Return True for a trainer of transformers or TRL, or of a subclass that this file defines."""
    own = [each for each in source.names.of_type(ast.ClassDef) if each.name == tail_of(consumer.call)]
    bases = [source.names.meaning(base) or "" for each in own for base in each.bases]
    derived = any(base.startswith(("transformers.", "trl.")) for base in bases)
    return consumer.trainer and (derived or is_library_trainer(source, consumer.call))
