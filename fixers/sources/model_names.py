"""Judge whether an expression may refer to a model that another name refers to."""

from __future__ import annotations

import ast
import re

from fixers.sources.expressions import tail_of, written
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import PythonSource

KEEPS = frozenset({"to", "cuda", "cpu", "train", "eval", "requires_grad_", "compile", "get_peft_model", "DDP", "apply"})
"""Methods and functions that return the model which they get."""
NAMES_MODULE = re.compile(
    r"(?!(?:d|n|num|dim|max|min|size)_)(?:\w+_)?(?:model|net|module|m|layer|encoder|decoder|transformer)s?$"
)


def may_refer_to(source: PythonSource, node: ast.expr, owner: str) -> bool:
    """Return True for the model, an object that contains it, or an argument or loop variable named like a module."""
    name = written(source, node)
    if not name:
        if not isinstance(node, ast.Call) or tail_of(node) == "deepcopy":
            return False
        return any(may_refer_to(source, each, owner) for each in _holders(node))
    if name == owner or owner.startswith(f"{name}.") or name.startswith(f"{owner}."):
        return True
    return NAMES_MODULE.fullmatch(name) is not None and _is_passed(source, node, name)


def _holders(call: ast.Call) -> list[ast.expr]:
    """Return the objects that the call may return. A submodule, as in `model.backbone(x)`, returns activations."""
    if not isinstance(call.func, ast.Attribute):
        return call.args
    computes = call.args and call.func.attr not in KEEPS
    return [*call.args, *([] if computes else [call.func.value])]


def _is_passed(source: PythonSource, node: ast.expr, name: str) -> bool:
    """Return True if the name is an argument of the enclosing function, or a variable of an enclosing loop."""
    for above in source.names.ancestors(node):
        if isinstance(above, ast.For) and name in {getattr(each, "id", "") for each in ast.walk(above.target)}:
            return True
        if isinstance(above, (*FUNCTIONS, ast.Lambda)):
            return any(each.arg == name for each in ast.walk(above.args) if isinstance(each, ast.arg))
    return False
