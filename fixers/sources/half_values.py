"""Find values that a file computes in half precision outside autocast, from casts, loads and autocast blocks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.sources.autocast_blocks import autocast_around, is_off, is_under_autocast
from fixers.sources.expressions import tail_of, values_of, written
from fixers.sources.names import FUNCTIONS
from fixers.sources.optimized_models import makes_float32
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import HALVES
from remote.protocol.dataclass import dataclass

WIDENS = frozenset({"float", "double", "long", "int", "bool", "item", "argmax", "tolist"})
LOADS = frozenset({"from_pretrained", "from_config", "load_model", "pipeline"})
SHARDS = frozenset({"FSDP", "FullyShardedDataParallel", "fully_shard"})
POLICIES = frozenset({"MixedPrecision", "MixedPrecisionPolicy"})
KEEP_DTYPE = ("torch.", "einops.")
"""Functions of these libraries return the dtype of their arguments."""
SETTINGS = re.compile(
    r"(?:self|\w*arg(?:s|uments)|\w*cfg|\w*conf(?:ig)?|hparams|params|opts?)(?:\.\w+)*\.\w*dtype|\w*dtype"
)
"""Matches variables with a configured dtype, in contrast to `tensor.dtype`."""
DTYPES = ("dtype", "torch_dtype", "param_dtype")
DEPTH = 12


def is_half(source: PythonSource, node: ast.expr) -> bool:
    """Return True if this file casts, loads or computes the value in half precision, also in an autocast block."""
    known = source.remember("not-half", dict[ast.AST, int])
    search = Search(dict(known))
    found = _is_half(source, node, search)
    if not found:
        known |= search.reached
    return found


@dataclass(frozen=True)
class Search:
    """The nodes that a search has reached, each with its shortest distance, and the current distance.

    A node is visited again only at a shorter distance, so that the search time is linear.
    """

    reached: dict[ast.AST, int]
    depth: int = 0

    def enter(self, node: ast.AST) -> Search | None:
        """Return the search after one more step, or None if the node is too far away or already searched."""
        if self.depth > DEPTH or self.reached.get(node, DEPTH + 1) <= self.depth:
            return None
        self.reached[node] = self.depth
        return Search(self.reached, self.depth + 1)


def _is_half(source: PythonSource, node: ast.expr, search: Search) -> bool:
    search_from_here = search.enter(node)
    if search_from_here is None:
        return False
    match node:
        case ast.Name():
            return _is_half_name(source, node, search_from_here)
        case ast.Attribute(value=inner):
            return _is_half_path(source, node, search_from_here) or _is_half(source, inner, search_from_here)
        case ast.Subscript(value=inner) | ast.UnaryOp(operand=inner) | ast.Starred(value=inner):
            return _is_half(source, inner, search_from_here)
        case ast.BinOp(left=one, right=other) | ast.IfExp(body=one, orelse=other):
            return _is_half(source, one, search_from_here) or _is_half(source, other, search_from_here)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return any(_is_half(source, each, search_from_here) for each in items)
        case ast.Call():
            return _is_half_call(source, node, search_from_here)
    return False


def _is_half_name(source: PythonSource, name: ast.Name, search_from_here: Search) -> bool:
    if _is_cast_in_place(source, name):
        return True
    if any(
        _leaves_autocast(source, each, name) or _is_half(source, each.value, search_from_here)
        for each in _assigned(source, name)
    ):
        return True
    return any(_is_half(source, given, search_from_here) for given in _passed(source, name))


def _is_half_path(source: PythonSource, path: ast.Attribute, search_from_here: Search) -> bool:
    """Return True for an attribute such as `self.model` that the file casts or that holds a half-precision model."""
    if _is_cast_in_place(source, path):
        return True
    name = written(source, path)
    if not name.startswith("self."):
        return False
    same = source.remember("assignments-to-self", lambda: _by_path(source)).get(name, ())
    return any(
        _is_half(source, each.value, search_from_here) for each in same if _owner(source, each) is _owner(source, path)
    )


def _by_path(source: PythonSource) -> dict[str, list[ast.Assign]]:
    """Return the assignments to each attribute of `self`."""
    found: dict[str, list[ast.Assign]] = {}
    for each in source.names.of_type(ast.Assign):
        for target in {source.segment(one) for one in each.targets if isinstance(one, ast.Attribute)}:
            found.setdefault(target, []).append(each)
    return found


def _is_half_call(source: PythonSource, call: ast.Call, search_from_here: Search) -> bool:
    tail = tail_of(call)
    if makes_float32(source, call) or (isinstance(call.func, ast.Attribute) and tail in WIDENS):
        return False
    if isinstance(call.func, ast.Attribute) and _casts_to_half(source, call):
        return True
    if tail == "to" and any(_is_dtype_of_half(source, each, search_from_here) for each in call.args):
        return True
    if any(each.arg in DTYPES and _is_half_dtype(source, each.value) for each in call.keywords):
        return True
    return tail not in LOADS and _is_half_result(source, call, search_from_here)


def _is_half_result(source: PythonSource, call: ast.Call, search_from_here: Search) -> bool:
    """Return True if the callee is a half-precision model, or a function that returns a half-precision value."""
    if tail_of(call) in SHARDS and any(each.arg in ("mixed_precision", "mp_policy") for each in call.keywords):
        return _has_half_policy(source)
    if _is_half(source, call.func, search_from_here):
        return True
    function = _function_named(source, call)
    if function is not None:
        return any(_is_half(source, value, search_from_here) for value in _returned(source, function))
    keeps = (source.names.meaning(call.func) or "").startswith(KEEP_DTYPE)
    return keeps and any(_is_half(source, each, search_from_here) for each in (*call.args, *values_of(call)))


def _is_dtype_of_half(source: PythonSource, value: ast.expr, search_from_here: Search) -> bool:
    return (
        isinstance(value, ast.Attribute) and value.attr == "dtype" and _is_half(source, value.value, search_from_here)
    )


def _is_half_dtype(source: PythonSource, value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return value.value in ("float16", "bfloat16", "fp16", "bf16")
    if source.names.meaning(value) in HALVES:
        return True
    return SETTINGS.fullmatch(written(source, value)) is not None and _names_half(source)


def _names_half(source: PythonSource) -> bool:
    return source.remember(
        "names-half", lambda: any(source.names.meaning(each) in HALVES for each in source.names.of_type(ast.Attribute))
    )


def _has_half_policy(source: PythonSource) -> bool:
    """Return True if the FSDP mixed-precision policy has half-precision parameters or is defined in another file."""
    made = [call for call in source.names.of_type(ast.Call) if tail_of(call) in POLICIES]
    given = [each.value for call in made for each in call.keywords if each.arg == "param_dtype"]
    return not made or any(_is_half_dtype(source, each) for each in given)


def _is_cast_in_place(source: PythonSource, path: ast.expr) -> bool:
    """Return True for a name that a statement casts: `model.half()`, `model.to(torch.float16)`.

    `self` counts as cast in a class if the file casts an instance of that class: `Net(config).half()`.
    """
    name = written(source, path)
    if name == "self":
        within = _owner(source, path)
        if isinstance(within, ast.ClassDef) and within.name in _cast_classes(source):
            return True
    return any(each == name and scope is _owner(source, path, name) for each, scope in _casts(source))


def _owner(source: PythonSource, node: ast.AST, name: str = "self") -> ast.AST | None:
    """Return the enclosing class or None for names that begin with `self`, otherwise the scope that binds the name."""
    root = name.partition(".")[0]
    if root == "self":
        return next((above for above in source.names.ancestors(node) if isinstance(above, ast.ClassDef)), None)
    scope = source.names.scopes[node]
    while root not in scope.bindings and scope.parent is not None:
        scope = scope.parent
    return scope.node


def _casts(source: PythonSource) -> tuple[tuple[str, ast.AST | None], ...]:
    """Return every name that is cast to half precision in place, with the class or scope that binds the name."""
    return source.remember("casts-in-place", lambda: tuple(_find_casts(source)))


def _find_casts(source: PythonSource) -> Iterator[tuple[str, ast.AST | None]]:
    for statement in source.names.of_type(ast.Expr):
        call = statement.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and _casts_to_half(source, call):
            name = written(source, call.func.value)
            if name:
                yield name, _owner(source, call, name)


def _cast_classes(source: PythonSource) -> frozenset[str]:
    return source.remember("cast-classes", lambda: frozenset(_find_cast_classes(source)))


def _find_cast_classes(source: PythonSource) -> Iterator[str]:
    for call in source.names.of_type(ast.Call):
        if isinstance(call.func, ast.Attribute) and _casts_to_half(source, call):
            yield from (tail_of(each) for each in ast.walk(call.func.value) if isinstance(each, ast.Call))


def _casts_to_half(source: PythonSource, call: ast.Call) -> bool:
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "dtype")]
    return tail_of(call) == "half" or (
        tail_of(call) in ("to", "type") and any(_is_half_dtype(source, each) for each in given)
    )


def _assigned(source: PythonSource, name: ast.Name) -> Iterator[ast.Assign]:
    """Yield the assignments to the name in its function up to its line. For a global name, search the module."""
    function = source.names.function(name)
    same = source.remember("assignments-by-name", lambda: _by_name(source)).get(name.id, ())
    within = [each for each in same if source.names.function(each) is function and each.lineno <= name.lineno]
    if within or isinstance(function, ast.Module) or _is_argument(function, name.id):
        yield from within
    else:
        yield from (each for each in same if isinstance(source.names.function(each), ast.Module))


def _by_name(source: PythonSource) -> dict[str, list[ast.Assign]]:
    """Return the assignments to each name, directly or in a tuple."""
    found: dict[str, list[ast.Assign]] = {}
    for each in source.names.of_type(ast.Assign):
        parts = [part for target in each.targets for part in _parts(target)]
        for name in {part.id for part in parts if isinstance(part, ast.Name)}:
            found.setdefault(name, []).append(each)
    return found


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for each in target.elts:
            yield from _parts(each)
    else:
        yield target


def _leaves_autocast(source: PythonSource, assignment: ast.Assign, use: ast.Name) -> bool:
    """Return True if a call in an autocast block computes the value, and the name is used outside the block."""
    if not isinstance(assignment.value, ast.Call) or makes_float32(source, assignment.value):
        return False
    block = autocast_around(source, assignment)
    return block is not None and block not in source.names.ancestors(use) and not is_off(block)


def _passed(source: PythonSource, name: ast.Name) -> Iterator[ast.expr]:
    """Yield the values that calls in this file pass as the argument, except calls under autocast."""
    function = source.names.function(name)
    if not isinstance(function, ast.FunctionDef) or not _is_argument(function, name.id):
        return
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    for call in source.remember("calls-by-tail", lambda: _by_tail(source)).get(function.name, ()):
        if is_under_autocast(source, call):
            continue
        bound = isinstance(call.func, ast.Attribute) and names[:1] == ["self"]
        pairs = zip(names[1:] if bound else names, call.args, strict=False)
        yield from (value for given, value in pairs if given == name.id)
        yield from (each.value for each in call.keywords if each.arg == name.id)


def _by_tail(source: PythonSource) -> dict[str, list[ast.Call]]:
    found: dict[str, list[ast.Call]] = {}
    for call in source.names.of_type(ast.Call):
        found.setdefault(tail_of(call), []).append(call)
    return found


def _is_argument(function: ast.AST, name: str) -> bool:
    if not isinstance(function, FUNCTIONS):
        return False
    return any(each.arg == name for each in ast.walk(function.args) if isinstance(each, ast.arg))


def _function_named(source: PythonSource, call: ast.Call) -> ast.FunctionDef | None:
    named = source.remember("functions-by-name", lambda: _functions(source)).get(tail_of(call), ())
    return named[0] if len(named) == 1 else None


def _functions(source: PythonSource) -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for each in source.names.of_type(ast.FunctionDef):
        found.setdefault(each.name, []).append(each)
    return found


def _returned(source: PythonSource, function: ast.FunctionDef) -> Iterator[ast.expr]:
    for each in source.names.of_type(ast.Return):
        if each.value is not None and source.names.function(each) is function:
            yield each.value
