"""Find models that are loaded or cast in half precision, judged by the code of one file and the names that it calls."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterator

from fixers.sources.adapters import loads_adapter
from fixers.sources.expressions import is_path, tail_of, written
from fixers.sources.float_models import (
    CASTS,
    FULL,
    MAY_BE_HALF,
    WRAPS_OR_UNWRAPS,
    is_argument,
    is_cast_anywhere,
    may_be_dtype,
    preserves_model,
    scope_of,
)
from fixers.sources.model_names import KEEPS, NAMES_MODULE, may_refer_to
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import HALVES

SELECTS_HALF = re.compile(r"torch_dtype|\.half\(\)|float16|load_in_[48]bit")
LOADS = frozenset({"from_pretrained", "from_config"})
QUANTISES = ("quantization_config", "load_in_4bit", "load_in_8bit", None)
COPIES = frozenset({"deepcopy", "copy"})
BUILTINS = frozenset(dir(builtins))
LANGUAGE_MODEL = re.compile(r"\w*CausalLM|(?:Qwen|Llama|Gemma|Mistral|Mixtral|Phi|DeepSeek|Glm)\w*")
"""Model classes whose checkpoints are bfloat16 or float16. Checkpoints of encoders and Whisper are mostly float32."""


def may_be_half(
    source: PythonSource, owner: str, at: ast.AST, half_makers: Collection[str] = (), *, loads_float32: bool = False
) -> bool:
    """Return True if the model named `owner` may have half-precision weights.

    `half_makers`: the project's classes and functions that load or cast a model in half precision. `loads_float32`: the
    library loads in float32 by default. A model whose name the file does not define may be half precision.
    """
    if MAY_BE_HALF.search(source.data) or loads_adapter(source, at) or is_cast_anywhere(source, owner):
        return True
    return Search(source, half_makers, loads_float32).of_name(owner, at)


def stays_bfloat16(source: PythonSource, owner: str) -> bool:
    """Return True if the file casts the model to bfloat16 and never to float16.

    Such a model trains without a loss scaler.
    """
    casts = (call for call in source.names.of_type(ast.Call) if tail_of(call) in ("to", *CASTS))
    dtypes = {
        _dtype_of_cast(source, call)
        for call in casts
        if isinstance(call.func, ast.Attribute) and may_refer_to(source, call.func.value, owner)
    }
    return "bfloat16" in dtypes and "float16" not in dtypes


def _dtype_of_cast(source: PythonSource, call: ast.Call) -> str:
    if tail_of(call) in ("half", "bfloat16"):
        return "float16" if tail_of(call) == "half" else "bfloat16"
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "dtype")]
    named = ((source.names.meaning(each) or "").removeprefix("torch.") for each in given)
    return next(({"half": "float16"}.get(name, name) for name in named if name in ("half", "float16", "bfloat16")), "")


class Search:
    """A search for half-precision weights, from a name to the calls that create the model."""

    def __init__(self, source: PythonSource, half_makers: Collection[str], loads_float32: bool) -> None:
        self.source = source
        self.half_makers = half_makers
        self.loads_float32 = loads_float32
        self.visited: set[tuple[str, ast.AST | None]] = set()

    def of_name(self, name: str, at: ast.AST) -> bool:
        """Return True if the model `name`, or the object that contains it, may be a half-precision model."""
        scope = scope_of(self.source, name, at)
        if (name, scope) in self.visited:
            return False
        self.visited.add((name, scope))
        root = name.partition(".")[0]
        if not _is_bound(self.source, root, at):
            return True
        values = list(_values(self.source, name, scope))
        made = [value for value in values if not preserves_model(self.source, value, name)]
        if any(self.of_value(value) for value in made):
            return True
        if made:
            return False
        if values and not is_argument(scope, root) and root != "self":
            return True
        holder = name.rpartition(".")[0]
        if holder and holder != "self":
            return self.of_name(holder, at)
        return any(self.of_value(value) for value in _passed(self.source, root, scope))

    def of_value(self, value: ast.expr) -> bool:
        match value:
            case ast.IfExp(body=one, orelse=other):
                return self.of_value(one) or self.of_value(other)
            case ast.BoolOp(values=values):
                return any(self.of_value(each) for each in values)
            case ast.Name() | ast.Attribute() if is_path(value):
                return self.of_name(written(self.source, value), value)
            case ast.Await(value=inner) | ast.Subscript(value=inner):
                return self.of_value(inner)
            case ast.Call():
                return self.of_call(value)
        return False

    def of_call(self, call: ast.Call) -> bool:
        tail = tail_of(call)
        given = [*call.args, *(each.value for each in call.keywords if each.arg)]
        if tail in LOADS:
            return self.of_load(call)
        if self.is_cast(call):
            return True
        if isinstance(call.func, ast.Attribute) and tail in KEEPS and self.of_value(call.func.value):
            return True
        if tail in KEEPS | WRAPS_OR_UNWRAPS | COPIES:
            return any(self.of_value(each) for each in call.args[:1])
        if tail in self.half_makers or self.has_half_argument(call):
            return True
        return self.of_callee(call) or any(self.of_value(each) for each in given if self.is_model(each))

    def is_cast(self, call: ast.Call) -> bool:
        """Return True if the call may change the dtype: `.half()`, or `.to(...)` with a possible dtype."""
        if tail_of(call) in CASTS and isinstance(call.func, ast.Attribute):
            return True
        named = [each.value for each in call.keywords if each.arg == "dtype"]
        return tail_of(call) == "to" and any(may_be_dtype(self.source, each) for each in (*call.args, *named))

    def of_load(self, call: ast.Call) -> bool:
        """Return True for a load with a dtype other than float32, or for a language model loaded without a dtype."""
        if _quantises(call):
            return True
        dtypes = [each.value for each in call.keywords if each.arg in ("dtype", "torch_dtype")]
        if dtypes:
            return any(self.source.names.meaning(each) not in FULL for each in dtypes)
        loader = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        name = (written(self.source, loader) or tail_of(call)).rpartition(".")[2]
        meaning = self.source.names.meaning(loader) or name
        language = not self.loads_float32 and LANGUAGE_MODEL.fullmatch(meaning.rpartition(".")[2]) is not None
        unknown = isinstance(loader, ast.Name) and not _is_bound(self.source, loader.id, call)
        return language or meaning.startswith("peft.") or name in self.half_makers or unknown

    def has_half_argument(self, call: ast.Call) -> bool:
        """Return True if an argument selects half precision, or is a dtype that may be half, as in `load(dtype)`."""
        dtypes = [each.value for each in call.keywords if "dtype" in (each.arg or "")]
        if any(self.source.names.meaning(each) not in FULL and not self.is_dtype_of_self(each) for each in dtypes):
            return True
        named = (written(self.source, each).rpartition(".")[2] for each in call.args)
        if any(name.endswith("dtype") for name in named):
            return True
        return any(self.source.names.meaning(each) in HALVES for each in call.args)

    def is_dtype_of_self(self, value: ast.expr) -> bool:
        """Return True if the value is `self.dtype` and the file never casts `self`: the dtype is then float32."""
        return written(self.source, value) == "self.dtype" and not is_cast_anywhere(self.source, "self")

    def of_callee(self, call: ast.Call) -> bool:
        """Return True if the callee selects half precision, or if the file does not define it."""
        source, name = self.source, tail_of(call)
        own = [each for each in source.names.of_type(ast.ClassDef) if each.name == name]
        if own:
            return any(SELECTS_HALF.search(source.segment(each)) for each in own)
        functions = [each for each in source.names.of_type(ast.FunctionDef) if each.name == name]
        if functions:
            return any(self.of_returned(each) for each in functions)
        return isinstance(call.func, ast.Name) and name not in BUILTINS and not _is_bound(source, name, call)

    def of_returned(self, function: ast.FunctionDef) -> bool:
        """Return True if the function returns a model that may be half precision."""
        returned = (each for each in self.source.names.of_type(ast.Return) if each.value is not None)
        inside = (each.value for each in returned if self.source.names.function(each) is function)
        parts = (part for value in inside for part in (value.elts if isinstance(value, ast.Tuple) else [value]))
        return any(self.of_cast_name(each) or self.of_value(each) for each in parts if each is not None)

    def of_cast_name(self, value: ast.expr) -> bool:
        name = written(self.source, value)
        return bool(name) and is_cast_anywhere(self.source, name)

    def is_model(self, value: ast.expr) -> bool:
        """Return True for an argument with a name that is common for modules."""
        name = written(self.source, value).rpartition(".")[2]
        return NAMES_MODULE.fullmatch(name) is not None or isinstance(value, ast.Call)


def _quantises(load: ast.Call) -> bool:
    """Return True if the load may quantise the weights.

    Unpacked options may quantise; `load_in_8bit=False` does not.
    """
    given = (each.value for each in load.keywords if each.arg in QUANTISES)
    return any(not isinstance(value, ast.Constant) or bool(value.value) for value in given)


def _is_bound(source: PythonSource, name: str, at: ast.AST) -> bool:
    scope = source.names.scopes[at]
    while name not in scope.bindings and scope.parent is not None:
        scope = scope.parent
    return name in scope.bindings


def _values(source: PythonSource, name: str, scope: ast.AST | None) -> Iterator[ast.expr]:
    """Yield the values assigned to the name in the scope, including tuple unpacking.

    If the scope is None, search the file.
    """
    for node in source.names.of_type(ast.Assign):
        if scope is None or source.names.function(node) is scope:
            for target in node.targets:
                parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
                yield from (_part(node.value, parts, each) for each in parts if written(source, each) == name)
    for each in source.names.of_type(ast.AnnAssign):
        if (scope is None or source.names.function(each) is scope) and written(source, each.target) == name:
            yield from [each.value] if each.value is not None else []


def _part(value: ast.expr, targets: list[ast.expr], target: ast.expr) -> ast.expr:
    """Return the tuple item or the argument of `prepare` that is assigned to the target, or else the whole value."""
    at = targets.index(target)
    if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(targets):
        return value.elts[at]
    if isinstance(value, ast.Call) and tail_of(value) == "prepare" and len(value.args) == len(targets):
        return value.args[at]
    return value


def _passed(source: PythonSource, name: str, function: ast.AST | None) -> Iterator[ast.expr]:
    """Yield the values that calls in this file pass as the argument `name` of the function or constructor."""
    if not isinstance(function, FUNCTIONS) or isinstance(function, ast.Lambda):
        return
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    called, above = function.name, source.names.parent(function)
    if function.name == "__init__" and isinstance(above, ast.ClassDef):
        called = above.name
    for call in source.names.of_type(ast.Call):
        if tail_of(call) == called:
            own = names[1:] if names[:1] == ["self"] else names
            yield from (value for given, value in zip(own, call.args, strict=False) if given == name)
            yield from (each.value for each in call.keywords if each.arg == name)
