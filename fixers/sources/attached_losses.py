"""Find autograd functions that attach a second loss: its gradient does not depend on that of their output.

Such a function returns its input unchanged, and its backward pass adds the gradient of an auxiliary loss, such as the
one that balances the experts of a mixture of experts. A scaled loss multiplies only gradients that depend on it. After
the optimizer has divided all gradients by the scale, the gradient of the auxiliary loss is too small.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from fixers.sources.expressions import tail_of
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import PythonSource

NEEDLES = (b"autograd", b"def backward(")
FUNCTION = "autograd.Function"
METADATA = frozenset({"device", "dtype", "shape", "ndim", "layout", "requires_grad", "size", "dim", "numel"})
"""Properties of a gradient that do not change if the gradient is scaled."""
CREATES = "new_"
"""The prefix of methods that create a tensor with the dtype and the device of another one."""
ZEROS = frozenset({"zeros", "zeros_like", "new_zeros"})
RECOMPUTES = frozenset({"backward", "grad", "get_scale", "scale"})
"""Functions that compute gradients from the incoming one without naming it in the result, or that scale them."""
SCALE = "scale"


def attaching_classes(source: PythonSource) -> Iterator[ast.ClassDef]:
    """Yield the autograd functions whose backward pass returns a gradient that a loss scale does not multiply."""
    for each in source.names.of_type(ast.ClassDef):
        if any((source.names.meaning(base) or "").endswith(FUNCTION) for base in each.bases):
            backward = [part for part in each.body if isinstance(part, FUNCTIONS) and part.name == "backward"]
            if any(_attaches(function) for function in backward):
                yield each


def sets_scale(source: PythonSource, name: str) -> bool:
    """Return True if code outside of the class with this name gives it a value that is named after a scale.

    Examples are `Attached.set_loss_scale(loss_scale / steps)` and `Attached.scale = scaler.get_scale()`.
    """
    nodes: list[ast.Call | ast.Assign] = [*source.names.of_type(ast.Call), *source.names.of_type(ast.Assign)]
    for node in nodes:
        if name in map(_owner_of, _targets(node)) and any(SCALE in ast.unparse(each).lower() for each in _given(node)):
            inside = (each for each in source.names.ancestors(node) if isinstance(each, ast.ClassDef))
            if all(each.name != name for each in inside):
                return True
    return False


def _targets(node: ast.Call | ast.Assign) -> list[ast.expr]:
    return [node.func] if isinstance(node, ast.Call) else node.targets


def _given(node: ast.Call | ast.Assign) -> list[ast.expr]:
    return [*node.args, *(each.value for each in node.keywords)] if isinstance(node, ast.Call) else [node.value]


def _owner_of(target: ast.expr) -> str:
    """Return the class in `Class.name`, or in `package.Class.name`. `Class.apply` does not count."""
    if not isinstance(target, ast.Attribute) or target.attr == "apply":
        return ""
    return getattr(target.value, "id", "") or getattr(target.value, "attr", "")


def _attaches(backward: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if one of the returned gradients depends on an incoming one, and another one does not."""
    calls = [each for each in ast.walk(backward) if isinstance(each, ast.Call)]
    if any(tail_of(each) in RECOMPUTES for each in calls):
        return False
    scaled = _scaled_names(backward)
    for each in ast.walk(backward):
        if isinstance(each, ast.Return) and isinstance(each.value, ast.Tuple):
            given = [one for one in each.value.elts if not isinstance(one, (ast.Constant, ast.Starred))]
            free = [one for one in given if not _depends(one, scaled)]
            if len(free) < len(given) and any(not _is_zero(one, backward) for one in free):
                return True
    return False


def _scaled_names(backward: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Return the names whose values may depend on the incoming gradients.

    A value also counts if a call gets it together with such a value, because the call may write to it.
    """
    arguments = backward.args
    given = [*arguments.posonlyargs, *arguments.args, *filter(None, (arguments.vararg,)), *arguments.kwonlyargs]
    context = {each.arg for each in given[:1]}
    scaled = {each.arg for each in given[1:]}
    nodes = list(ast.walk(backward))
    own = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)} - context
    while True:
        more = {name for node in nodes for name in _spread(node, scaled)} & own - scaled
        if not more:
            return frozenset(scaled)
        scaled |= more


def _spread(node: ast.AST, scaled: Collection[str]) -> Iterator[str]:
    """Yield the names to which the statement or call gives a value that depends on the scaled names."""
    match node:
        case ast.Assign(targets=targets, value=value) if _depends(value, scaled):
            yield from (name for target in targets for name in _names_in(target))
        case ast.AnnAssign(target=target, value=value) | ast.AugAssign(target=target, value=value) if value:
            yield from _names_in(target) if _depends(value, scaled) else ()
        case ast.NamedExpr(target=target, value=value) if _depends(value, scaled):
            yield target.id
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield from _names_in(target) if _depends(value, scaled) else ()
        case ast.Call(func=function) if _depends(node, scaled):
            yield from _names_in(function)
            yield from (name for each in _given(node) for name in _names_in(each))


def _names_in(node: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def _depends(node: ast.AST, scaled: Collection[str]) -> bool:
    """Return True if the value of the expression may change with the scaled names, apart from their metadata."""
    if isinstance(node, ast.Name):
        return node.id in scaled
    if isinstance(node, ast.Attribute) and (node.attr in METADATA or node.attr.startswith(CREATES)):
        return False
    return any(_depends(each, scaled) for each in ast.iter_child_nodes(node))


def _is_zero(node: ast.expr, backward: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for None, for zeros, and for a name that has only such values and is not written to."""
    match node:
        case ast.Constant():
            return True
        case ast.IfExp(body=one, orelse=other):
            return _is_zero(one, backward) and _is_zero(other, backward)
        case ast.Call():
            return tail_of(node) in ZEROS
        case ast.Name(id=name):
            values = [each for part in ast.walk(backward) for each in _values_of(part, name)]
            return bool(values) and all(value is not None and _is_zero(value, backward) for value in values)
    return False


def _values_of(node: ast.AST, name: str) -> Iterator[ast.expr | None]:
    """Yield the values that the node assigns to the name, and None for other ways of writing to it."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for each in targets:
                if isinstance(each, ast.Name):
                    yield from (value,) if each.id == name else ()
                elif name in _names_in(each):
                    yield None
        case ast.AnnAssign(target=ast.Name(id=target), value=value) if target == name:
            yield value
        case ast.AugAssign(target=target) | ast.For(target=target) if name in _names_in(target):
            yield None
        case ast.Call(func=ast.Attribute(attr=method, value=owner)):
            if method.endswith("_") and not method.endswith("__") and name in _names_in(owner):
                yield None
