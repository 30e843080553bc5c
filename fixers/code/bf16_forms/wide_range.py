"""Find uses of bfloat16 that need its exponent range. float32 has the same range; float16 has a smaller range."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.settings.precision_words import NEEDS_RANGE
from fixers.sources.chosen_words import constant_of, is_chosen
from fixers.sources.expressions import tail_of
from fixers.sources.python import PythonSource

OPTIMIZER = re.compile(
    r"\w*(?:Adam\w*|SGD\w*|Lion\w*|Adafactor|Adagrad|RMSprop|LAMB|Lamb|Muon\w*|Shampoo|SOAP|Optimizer)(?<!Config)$"
)
AVERAGES = re.compile(r"(?:\w*_)?(?:EMA|Ema|ema)(?=[A-Z_]|$)\w*|\w*(?:EMA|Ema|MovingAverage|AveragedModel)$")
ITERATES = re.compile(r"\w*(?:newton_?schul[tz]z?|zero_?power|polar_express|orthogonali[sz]e)\w*", re.IGNORECASE)
TENSORS = re.compile(
    r"(?:\w*_)?(?:exp_avg(?:_sq)?|exp_inf|momentum(?:_buffer)?|variance|running_(?:mean|var)|ema(?:_\w+)?|shadow"
    r"|(?:\w+_)?loss(?:es)?|(?:loss|grad|gradient)_(?:sum|accum\w*|norm|buffer)|inv_freqs?|positions|position_ids"
    r"|cum_?prod|alphas?_(?:bar|cumprod)|log_?sum_?exp|lse|power(?:_spec\w*)?|energy|logit_scale|temperature)"
)
"""Matches names of tensors with large or small values: moments, averages, losses, positions, products, squares."""
CASTS = frozenset(
    {"to", "type", "bfloat16", "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "empty"}
    | {"empty_like", "new_empty", "full", "full_like", "new_full", "tensor", "as_tensor", "arange", "linspace"}
)
REDUCTIONS = frozenset(
    {"sum", "nansum", "mean", "nanmean", "prod", "cumsum", "cumprod", "norm", "vector_norm", "var", "std"}
)
"""Functions that sum or multiply the values of a tensor. The dtype is an argument, or the tensor is cast before the
call."""
GROWING_METHODS = frozenset({"pow", "square", "exp", "logsumexp"}) | REDUCTIONS
HOLDERS = frozenset({"Parameter", "Buffer", "register_buffer"})
TRANSPOSES = frozenset({"T", "mT", "H", "mH", "t", "transpose", "permute", "adjoint"})
PRODUCTS = frozenset({"mm", "bmm", "matmul", "addmm", "baddbmm"})


def needs_range(source: PythonSource, node: ast.expr) -> bool:
    """Return True if the values of the selected dtype would overflow or underflow in float16."""
    above = source.names.parent(node)
    if isinstance(above, ast.Call) and tail_of(above) == "getattr":
        node = above
    return (
        is_chosen(source, node, NEEDS_RANGE)
        or _is_given_to_optimizer(source, node)
        or _is_within(source, node)
        or _may_overflow(source, node)
        or any(TENSORS.fullmatch(name) for name in _holders(source, node))
    )


def _is_given_to_optimizer(source: PythonSource, node: ast.expr) -> bool:
    """Return True for the dtype of moments or averages: `SomeAdam(parameters, dtype=...)`, `EMA(model, dtype=...)`."""
    above = source.names.parent(node)
    call = source.names.parent(above) if isinstance(above, ast.keyword) else above
    if not isinstance(call, ast.Call) or call.func is node:
        return False
    return any(_is_name(pattern, tail_of(call)) for pattern in (OPTIMIZER, AVERAGES, ITERATES))


def _is_within(source: PythonSource, node: ast.expr) -> bool:
    """Return True if the node is in the code of an optimizer, a moving average or a Newton-Schulz iteration."""
    for above in source.names.ancestors(node):
        match above:
            case ast.ClassDef(name=name, bases=bases):
                called = [name, *(getattr(base, "attr", getattr(base, "id", "")) for base in bases)]
                if any(_is_name(OPTIMIZER, each) or _is_name(AVERAGES, each) for each in called):
                    return True
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if _is_name(ITERATES, name) or _multiplies_itself(above):
                    return True
    return False


def _is_name(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.fullmatch(name) is not None


def _multiplies_itself(function: ast.AST) -> bool:
    """Return True if a loop in the function multiplies a matrix by its own transpose, as in Newton-Schulz iteration."""
    loops = (node for node in ast.walk(function) if isinstance(node, (ast.For, ast.While)))
    return any(_is_gram(node) for loop in loops for node in ast.walk(loop))


def _is_gram(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.MatMult(), left=left, right=right):
            factors: list[ast.expr] = [left, right]
        case ast.Call() if tail_of(node) in PRODUCTS:
            receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
            factors = [*([receiver] if receiver else []), *node.args]
        case _:
            return False
    plain = {each.id for each in factors if isinstance(each, ast.Name)}
    return any(_transposed(each) in plain for each in factors)


def _transposed(factor: ast.expr) -> str:
    """Return the name `X` for `X.T`, `X.mT` and `X.transpose(0, 1)`, or an empty string for any other expression."""
    match factor:
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute in TRANSPOSES:
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if attribute in TRANSPOSES:
            return name
    return ""


def _may_overflow(source: PythonSource, node: ast.expr) -> bool:
    """Return True if a sum or a power in bfloat16 could overflow in float16, as in `x.to(torch.bfloat16) ** 2`."""
    cast = _cast_of(source, node, CASTS | REDUCTIONS)
    if cast is None:
        return False
    above = source.names.parent(cast)
    match above:
        case ast.Attribute(attr=method) if above.value is cast:
            called = source.names.parent(above)
            return tail_of(cast) in REDUCTIONS or (isinstance(called, ast.Call) and method in GROWING_METHODS)
        case ast.BinOp(op=ast.Pow(), left=left) if left is cast:
            return True
    return tail_of(cast) in REDUCTIONS


def _holders(source: PythonSource, node: ast.expr) -> Iterator[str]:
    """Yield the names that get a tensor with this dtype: by assignment, as a dict value or as a keyword argument."""
    child: ast.AST | None = _cast_of(source, node, CASTS)
    while child is not None:
        above = source.names.parent(child)
        match above:
            case ast.Attribute() | ast.BinOp() | ast.UnaryOp() | ast.IfExp():
                pass
            case ast.Call(func=function) if function is child:
                pass
            case ast.Call() if tail_of(above) in HOLDERS:
                yield str(constant_of(above.args[0])) if above.args else ""
            case ast.Assign():
                yield from map(_target_name, above.targets)
                return
            case ast.AnnAssign() | ast.AugAssign():
                yield _target_name(above.target)
                return
            case ast.Dict() if child in above.values:
                yield str(constant_of(above.keys[above.values.index(child)]))
                return
            case ast.keyword(arg=str(name)):
                yield name
                return
            case _:
                return
        child = above


def _target_name(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
    return ""


def _cast_of(source: PythonSource, node: ast.expr, among: frozenset[str]) -> ast.Call | None:
    """Return the call in `among` that creates a tensor with this dtype or casts a tensor to it, or None."""
    above = source.names.parent(node)
    if isinstance(above, ast.keyword):
        above = source.names.parent(above)
    return above if isinstance(above, ast.Call) and tail_of(above) in among else None
