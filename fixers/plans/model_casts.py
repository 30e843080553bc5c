"""Find code that casts a whole model to bfloat16, and changes that such a cast overrules."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Collection, Iterable, Iterator

from fixers.frame.change import FileChange
from fixers.plans.neutral_changes import FUNCTIONS
from fixers.plans.uncalled import spans_of
from fixers.sources.expressions import tail_of
from fixers.sources.python import TREES, PythonSource
from fixers.sources.unparsable import Unparsable

MODEL = re.compile(r"\w*model(?:_?\w)?", re.IGNORECASE)
CLASS = re.compile(r"[A-Z](?!\w*Tensor$)\w*")
LOADS = frozenset({"from_pretrained", "from_config", "_from_config"})
OF_LOADS = frozenset({"dtype", "torch_dtype", "attn_implementation"})
"""Functions that load or create a model (LOADS), and their arguments that a cast of the model overrules, or that do not
concern its dtype (OF_LOADS)."""
CASTS = re.compile(rb"autocast|\.(?:to|type|half|empty|zeros|ones|full|tensor|arange)\(")
SIMPLE = (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)


def functions_casting_models(source: PythonSource) -> frozenset[str]:
    """Return the functions that cast a model to bfloat16 whenever they run.

    The main code of the module has an empty name, and `__init__` has the name of its class.
    """
    return frozenset(name for name, body in _bodies(source.tree) if any(_casts(each, source) for each in _always(body)))


def _bodies(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    yield "", tree.body
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            yield node.name, node.body
        for each in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(node, ast.ClassDef) and isinstance(each, FUNCTIONS):
                yield node.name if each.name == "__init__" else each.name, each.body


def _always(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that always run, and those of the main block."""
    for each in body:
        if isinstance(each, SIMPLE):
            yield each
        elif isinstance(each, ast.With) or (isinstance(each, ast.If) and "__name__" in ast.unparse(each.test)):
            yield from _always(each.body)


def _casts(statement: ast.stmt, source: PythonSource) -> bool:
    calls = (each for each in ast.walk(statement) if isinstance(each, ast.Call))
    return any(_to_bfloat16(each, source) and _is_model(each) for each in calls)


def _to_bfloat16(call: ast.Call, source: PythonSource) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    values = [*call.args, *(each.value for each in call.keywords)]
    is_named = any(source.names.meaning(each) == "torch.bfloat16" for each in values)
    return call.func.attr == "bfloat16" or (call.func.attr == "to" and is_named)


def _is_model(call: ast.expr) -> bool:
    """Return True if the value on which the methods are called is a model, by its name or by its class."""
    while isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        call = call.func.value
    if isinstance(call, ast.Call):
        return (
            isinstance(call.func, ast.Name)
            and (CLASS.fullmatch(call.func.id) or MODEL.fullmatch(call.func.id)) is not None
        )
    if isinstance(call, ast.Attribute):
        return call.attr == "model" and isinstance(call.value, ast.Name) and call.value.id == "self"
    return isinstance(call, ast.Name) and MODEL.fullmatch(call.id) is not None


def only_in(names: Collection[str], change: FileChange, *, and_loads: bool) -> bool:
    """Return True if the change only edits the functions with these names, and arguments of loaded models."""
    try:
        tree = TREES.read(change.path, change.before).tree
    except Unparsable:
        return False
    inner = {line for span in spans_of(tree, names) for line in span}
    loading = inner | {line for call in ast.walk(tree) for line in _loading_lines(call) if and_loads}
    before, after = change.before.splitlines(), change.after.splitlines()
    for kind, first, last, start, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        lines = range(first + 1, last + 1)
        if kind == "equal" or (lines and inner.issuperset(lines)):
            continue
        if not lines or not loading.issuperset(lines) or any(CASTS.search(line) for line in after[start:end]):
            return False
    return True


def _loading_lines(node: ast.AST) -> Iterator[int]:
    """Yield the lines of the arguments of a call that loads a model."""
    if isinstance(node, ast.Call) and tail_of(node) in LOADS:
        for each in node.keywords:
            if each.arg in OF_LOADS:
                yield from range(each.lineno, (each.end_lineno or each.lineno) + 1)
