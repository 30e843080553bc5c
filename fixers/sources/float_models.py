"""Recognise models that are created in float32 (loaded as float32, or built without a dtype) and never cast."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace

from fixers.sources.adapters import loads_adapter
from fixers.sources.expressions import tail_of, values_of, written
from fixers.sources.later_casts import is_trained
from fixers.sources.model_names import KEEPS, NAMES_MODULE, may_refer_to
from fixers.sources.names import FUNCTIONS, Scope
from fixers.sources.python import PythonSource
from remote.protocol.dataclass import dataclass

WRAPS_OR_UNWRAPS = {"DistributedDataParallel", "prepare_model", "unwrap_model", "extract_model_from_parallel"}
MAY_BE_HALF = re.compile(rb"set_default_|assign=|autocast_adapter_dtype")
CASTS = frozenset({"half", "bfloat16", "type"})
CLASS = re.compile(r"_*[A-Z]\w*$")
BUILDS = re.compile(r"init_\w+|build\w*|create\w*|from_scratch")
DERIVES = frozenset({"from_unet", "from_transformer"})
WRITES_HALF = re.compile(r"torch_dtype|\.half\(\)|float16|load_in_|from_pretrained")
DEVICE = re.compile(r"device|rank|cuda|cpu")
FULL = ("torch.float32", "torch.float")
WIDE = (*FULL, "torch.float64", "torch.double")
SPEECH = re.compile(
    r"(?:Whisper|Wav2Vec2|Hubert|WavLM|SEW|UniSpeech|Data2VecAudio|Speech2Text|SpeechT5|ASTFor|MCTCT)\w*"
    r"|AutoModelFor(?:SpeechSeq2Seq|CTC|Audio\w+)"
)
NOT_PLAIN = ("quantization_config", "load_in_4bit", "load_in_8bit", None)


def is_float32(
    source: PythonSource, owner: str, at: ast.AST, half_models: Collection[str] = (), *, speech: bool = False
) -> bool:
    """Return True if the model named `owner` in the function around `at` is created in float32 and never cast.

    `half_models`: classes that cast their models to half precision. `speech`: the project names no speech checkpoint in
    half precision.
    """
    if not owner or MAY_BE_HALF.search(source.data) or loads_adapter(source, at) or is_cast_anywhere(source, owner):
        return False
    search = FloatSearch(scope_of(source, owner, at), half_models, speech=speech)
    return _is_checked(source, owner) or _is_created_in_float32(source, owner, search)


@dataclass(frozen=True)
class FloatSearch:
    """The state of a search: the visited names, and the scope whose assignments are considered (None: all scopes).

    `half_models`: classes that create half-precision models. `speech`: the checkpoints of speech models are assumed to
    be float32.
    """

    scope: ast.AST | None
    half_models: Collection[str]
    visited: frozenset[str] = frozenset()
    speech: bool = False


def scope_of(source: PythonSource, owner: str, at: ast.AST) -> ast.AST | None:
    """Return the function or module that binds the name, or None for an attribute of `self`."""
    root = owner.partition(".")[0]
    if root == "self":
        return None
    scope: Scope | None = source.names.scopes[at]
    while scope is not None and root not in scope.bindings:
        scope = scope.parent
    return scope.node if scope is not None else source.names.module.node


def _is_created_in_float32(source: PythonSource, owner: str, search: FloatSearch) -> bool:
    if owner in search.visited:
        return False
    search = replace(search, visited=search.visited | {owner})
    given = _assigned_values(source, owner, search.scope)
    made = [value for value in given if not preserves_model(source, value, owner)]
    return bool(made) and all(_is_float32_value(source, value, search) for value in made)


def _is_checked(source: PythonSource, owner: str) -> bool:
    """Return True if the script raises for other dtypes: `if unwrap_model(owner).dtype != torch.float32: raise ...`."""
    for branch in source.names.of_type(ast.If):
        match branch:
            case ast.If(
                test=ast.Compare(left=ast.Attribute(value=held, attr="dtype"), ops=[ast.NotEq()], comparators=[wanted]),
                body=[ast.Raise(), *_],
            ) if source.names.meaning(wanted) in FULL:
                if any(written(source, node) == owner for node in ast.walk(held)):
                    return True
    return False


def is_cast_anywhere(source: PythonSource, owner: str) -> bool:
    """Return True if the file casts the model, an object that contains it, or a name that may refer to it."""
    for call in source.names.of_type(ast.Call):
        tail = tail_of(call)
        if not isinstance(call.func, ast.Attribute) or (tail != "to" and tail not in CASTS):
            continue
        keywords = (each.value for each in call.keywords if each.arg in ("dtype", None))
        if tail == "to" and not any(may_be_dtype(source, each) for each in (*call.args, *keywords)):
            continue
        if may_refer_to(source, call.func.value, owner) and is_trained(source, call):
            return True
    return False


def may_be_dtype(source: PythonSource, value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        text = source.segment(value)
        return source.names.meaning(value.func) != "torch.device" and ("device" not in text or "dtype" in text)
    if source.names.meaning(value) in WIDE:
        return False
    return not isinstance(value, (ast.Constant, ast.JoinedStr)) and DEVICE.search(written(source, value)) is None


def _assigned_values(source: PythonSource, owner: str, scope: ast.AST | None) -> Iterator[ast.expr | None]:
    """Yield every value assigned to the name in the scope, and None for each binding whose value is unknown."""
    if is_argument(scope, owner.partition(".")[0]):
        yield None
    assigned = 0
    for node in source.names.of_type(ast.Assign):
        if _is_in(source, node, scope):
            for target in node.targets:
                if written(source, target) == owner:
                    assigned += 1
                    yield node.value
                elif isinstance(node.value, ast.Call) and tail_of(node.value) == "prepare":
                    # `model, optimizer = accelerator.prepare(model, optimizer)`
                    assigned += sum(written(source, each) == owner for each in ast.walk(target))
    if _count_stored(source, owner, scope) != assigned:
        yield None


def is_argument(scope: ast.AST | None, name: str) -> bool:
    """Return True if the scope is a function with an argument of this name."""
    if not isinstance(scope, FUNCTIONS):
        return False
    return any(each.arg == name for each in ast.walk(scope.args) if isinstance(each, ast.arg))


def _is_in(source: PythonSource, node: ast.AST, scope: ast.AST | None) -> bool:
    return scope is None or source.names.function(node) is scope


def _count_stored(source: PythonSource, owner: str, scope: ast.AST | None) -> int:
    stored = source.remember("stored", lambda: _find_stored(source))
    return sum(_is_in(source, each, scope) for each in stored.get(owner, ()))


def _find_stored(source: PythonSource) -> defaultdict[str, list[ast.expr]]:
    """Return the names and attributes that the file assigns, grouped by their source text."""
    stored: defaultdict[str, list[ast.expr]] = defaultdict(list)
    named: list[ast.Name | ast.Attribute] = [*source.names.of_type(ast.Name), *source.names.of_type(ast.Attribute)]
    for node in named:
        if isinstance(node.ctx, ast.Store):
            stored[written(source, node)].append(node)
    return stored


def preserves_model(source: PythonSource, value: ast.expr | None, owner: str) -> bool:
    """Return True for None and for the model `owner`: unchanged, moved, wrapped, or with a float32 adapter."""
    if not isinstance(value, ast.Call):
        return value is not None and (written(source, value) == owner or ast.unparse(value) == "None")
    if tail_of(value) not in KEEPS | WRAPS_OR_UNWRAPS:
        return False
    inner = value.args[:1] if value.args else []
    above = [value.func.value] if isinstance(value.func, ast.Attribute) else []
    return any(preserves_model(source, each, owner) for each in (*above, *inner) if isinstance(each, ast.expr))


def _is_float32_value(source: PythonSource, value: ast.expr | None, search: FloatSearch) -> bool:
    match value:
        case ast.IfExp(body=one, orelse=other):
            return _is_float32_value(source, one, search) and _is_float32_value(source, other, search)
        case ast.Call() if tail_of(value) == "from_pretrained" or _is_diffusers_load(source, value):
            return _loads_float32(source, value, speech=search.speech)
        case ast.Call(func=ast.Attribute(value=inner)) if tail_of(value) in KEEPS:
            return _is_float32_value(source, inner, search)
        case ast.Call(args=[inner, *_]) if tail_of(value) in KEEPS | WRAPS_OR_UNWRAPS:
            return _is_float32_value(source, inner, search)
        case ast.Call(args=[base, *_]) if tail_of(value) in DERIVES and _is_of(source, value, "diffusers."):
            return _is_base_float32(source, written(source, base), search)
        case ast.Call():
            return _is_built_plainly(source, value, search) or _is_returned_float32(source, value, search)
    return False


def _is_returned_float32(source: PythonSource, call: ast.Call, search: FloatSearch) -> bool:
    """Return True if the call is to a function in this file that returns only models created in float32."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    named = [each for each in source.names.of_type(ast.FunctionDef) if each.name == name]
    if len(named) != 1 or name in search.visited or WRITES_HALF.search(source.segment(named[0])):
        return False
    inside = FloatSearch(named[0], search.half_models, search.visited | {name}, search.speech)
    returned = [node.value for node in source.names.of_type(ast.Return) if source.names.function(node) is named[0]]
    return bool(returned) and all(_is_model_returned(source, value, inside) for value in returned)


def _is_model_returned(source: PythonSource, value: ast.expr | None, search: FloatSearch) -> bool:
    name = written(source, value) if value is not None else ""
    if name:
        made = replace(search, visited=search.visited - {name})
        return not is_cast_anywhere(source, name) and _is_created_in_float32(source, name, made)
    return _is_float32_value(source, value, search)


def _is_built_plainly(source: PythonSource, call: ast.Call, search: FloatSearch) -> bool:
    """Return True if the call creates a float32 model, such as `Net(config)` without arguments that select a dtype."""
    function = call.func
    if isinstance(function, ast.Attribute) and BUILDS.fullmatch(function.attr):
        function = function.value
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    definitions = [each for each in source.names.of_type(ast.ClassDef) if each.name == name]
    if not CLASS.fullmatch(name) or any("dtype" in (each.arg or "") for each in call.keywords):
        return False
    if name in search.half_models or any(WRITES_HALF.search(source.segment(each)) for each in definitions):
        return False
    return all(_is_part_float32(source, each, search) for each in (*call.args, *values_of(call)))


def _is_part_float32(source: PythonSource, part: ast.expr, search: FloatSearch) -> bool:
    """Return False if the argument may be a half-precision model."""
    if isinstance(part, ast.Call) and _is_of(source, part, "torch.nn."):
        return _is_float32_value(source, part, search)
    name = written(source, part)
    return not name or not _is_model(source, name, search) or _is_base_float32(source, name, search)


def _is_base_float32(source: PythonSource, name: str, search: FloatSearch) -> bool:
    """Return True if the model passed to the constructor is float32."""
    return not is_cast_anywhere(source, name) and _is_created_in_float32(source, name, search)


def _is_model(source: PythonSource, name: str, search: FloatSearch) -> bool:
    """Return True if a load or a cast is assigned to the name, or if the name is common for models."""
    values = (value for value in _assigned_values(source, name, search.scope) if isinstance(value, ast.Call))
    loaded = any(tail_of(value) in ("from_pretrained", "half", "bfloat16", "get_peft_model") for value in values)
    return loaded or NAMES_MODULE.fullmatch(name.rpartition(".")[2]) is not None


def _loads_float32(source: PythonSource, load: ast.Call, *, speech: bool) -> bool:
    """Return True for `from_pretrained(..., dtype=torch.float32)` without quantisation or `**options`.

    diffusers loads in float32 by default, and a speech model is loaded in the dtype of its checkpoint.
    """
    if any(each.arg in NOT_PLAIN for each in load.keywords):
        return False
    dtypes = [each.value for each in load.keywords if each.arg in ("dtype", "torch_dtype")]
    if dtypes:
        return all(source.names.meaning(each) in FULL for each in dtypes)
    return _is_diffusers_load(source, load) or (speech and is_speech_load(source, load))


def is_speech_load(source: PythonSource, load: ast.Call) -> bool:
    """Return True for `from_pretrained` of a speech class of transformers: most speech checkpoints are float32."""
    loader = load.func.value if isinstance(load.func, ast.Attribute) else load.func
    meaning = source.names.meaning(loader) or ""
    return meaning.startswith("transformers.") and SPEECH.fullmatch(meaning.rpartition(".")[2]) is not None


def _is_diffusers_load(source: PythonSource, call: ast.Call) -> bool:
    """Return True for `from_pretrained` and `from_config` of a diffusers class."""
    return tail_of(call) in ("from_pretrained", "from_config") and _is_of(source, call, "diffusers.")


def _is_of(source: PythonSource, call: ast.Call, library: str) -> bool:
    return (source.names.meaning(call.func) or "").startswith(library)
