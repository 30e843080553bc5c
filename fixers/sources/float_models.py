"""Models that are created in float32 and never cast: loaded with that dtype, or built of torch.nn modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.sources.expressions import tail_of, values_of, written
from fixers.sources.python import PythonSource

KEEPS = frozenset({"to", "cuda", "cpu", "train", "eval", "requires_grad_", "compile", "get_peft_model", "DDP"})
KEEPS_TOO = frozenset({"DistributedDataParallel", "prepare_model"})
MAY_BE_HALF = re.compile(
    rb"\.half\(|\.bfloat16\(|set_default_|assign=|load_adapter|autocast_adapter_dtype|PeftModel|\.type\("
)
DEVICE = re.compile(r"device|rank|cuda|cpu")
FULL = ("torch.float32", "torch.float")
NOT_PLAIN = ("quantization_config", "load_in_4bit", "load_in_8bit", None)


def is_float32(source: PythonSource, owner: str) -> bool:
    """Return True if every assignment to the name creates a float32 model or keeps the existing one.

    False if the file may cast a model to half precision.
    """
    if not owner or MAY_BE_HALF.search(source.data) or _casts(source):
        return False
    given = list(_given(source, owner))
    made = [value for value in given if not _keeps(source, value, owner)]
    return bool(made) and all(_is_made_float32(source, value) for value in made)


def _casts(source: PythonSource) -> bool:
    """Return True for a call of `.to` with an argument that may be a dtype."""
    return any(
        tail_of(call) == "to" and any(_may_be_dtype(source, each) for each in (*call.args, *values_of(call)))
        for call in source.names.of_type(ast.Call)
    )


def _may_be_dtype(source: PythonSource, value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return source.names.meaning(value.func) != "torch.device"
    return not isinstance(value, (ast.Constant, ast.JoinedStr)) and DEVICE.search(written(source, value)) is None


def _given(source: PythonSource, owner: str) -> Iterator[ast.expr | None]:
    """Yield every value assigned to the name; None for other bindings."""
    root = owner.partition(".")[0]
    if root != "self" and any(each.arg == root for each in source.names.of_type(ast.arg)):
        yield None
    assigned = 0
    for node in source.names.of_type(ast.Assign):
        for target in node.targets:
            if written(source, target) == owner:
                assigned += 1
                yield node.value
            elif isinstance(node.value, ast.Call) and tail_of(node.value) == "prepare":
                # `model, optimizer = accelerator.prepare(model, optimizer)`
                assigned += sum(written(source, each) == owner for each in ast.walk(target))
    named = [*source.names.of_type(ast.Name), *source.names.of_type(ast.Attribute)]
    if sum(_is_stored(source, each, owner) for each in named) != assigned:
        yield None


def _is_stored(source: PythonSource, node: ast.expr, owner: str) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store) and written(source, node) == owner


def _keeps(source: PythonSource, value: ast.expr | None, owner: str) -> bool:
    """Return True if the value is the same model: unchanged, moved, wrapped, or with a float32 adapter from PEFT."""
    if value is None or not isinstance(value, ast.Call):
        return value is not None and written(source, value) == owner
    if tail_of(value) not in KEEPS | KEEPS_TOO:
        return False
    inner = value.args[:1] if value.args else []
    above = [value.func.value] if isinstance(value.func, ast.Attribute) else []
    return any(_keeps(source, each, owner) for each in (*above, *inner) if isinstance(each, ast.expr))


def _is_made_float32(source: PythonSource, value: ast.expr | None) -> bool:
    match value:
        case ast.Call(func=function) if (source.names.meaning(function) or "").startswith("torch.nn."):
            return not any(keyword.arg == "dtype" for keyword in value.keywords) and all(
                _is_made_float32(source, each) for each in value.args if isinstance(each, ast.Call)
            )
        case ast.Call() if tail_of(value) == "from_pretrained":
            return _loads_float32(source, value)
        case ast.Call(func=ast.Attribute(value=inner)) if tail_of(value) in KEEPS:
            return _is_made_float32(source, inner)
        case ast.Call(args=[inner, *_]) if tail_of(value) in KEEPS | KEEPS_TOO:
            return _is_made_float32(source, inner)
    return False


def _loads_float32(source: PythonSource, load: ast.Call) -> bool:
    """Return True for `from_pretrained(..., dtype=torch.float32)` without quantisation or unpacked options."""
    if any(each.arg in NOT_PLAIN for each in load.keywords):
        return False
    dtypes = [each.value for each in load.keywords if each.arg in ("dtype", "torch_dtype")]
    return bool(dtypes) and all(source.names.meaning(each) in FULL for each in dtypes)
