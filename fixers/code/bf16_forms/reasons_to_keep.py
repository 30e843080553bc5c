"""Find reasons to keep bfloat16: the value is saved, stays on the CPU, or must not be float16."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

from fixers.code.bf16_forms.kernels import kernel_around
from fixers.code.bf16_forms.saved_values import is_saved
from fixers.sources.expressions import tail_of, written
from fixers.sources.python import PythonSource
from fixers.sources.readers.branches import asserted_conditions
from fixers.sources.training_setup import block_of
from fixers.sources.unread_options import is_unread_option

SAVED = "weights that are saved"
ON_CPU = "models on the CPU"
TABLE = "key-value caches, and rotary tables whose results are cast to the dtype of the model"
STATE = "the state dtype of an optimizer: its users choose the dtype, and every card supports it"
ASSERTED_BRANCH = "a branch that asserts bfloat16: float16 programs do not run it"
ASSERTED = "a value that the file asserts to be bfloat16"
UNREAD = "options that nothing reads"
BEYOND_FLOAT16 = "values beyond 65504, which float16 cannot hold"
STATED_REASON = "the code gives a reason against float16; use float32 if the range is needed"

FLOAT16_MAX = 65504.0
FILLS = frozenset({"full", "full_like", "new_full"})
RANGE = re.compile(
    r"overflow|underflow|\bnan'?s?\b|\binf(?:s|inity)?\b|dynamic range|exponent range|numerical(?:ly)? (?:in)?stab"
    r"|(?:not|n't|never|instead of|avoid|unlike|breaks? (?:in|with)) (?:use |be |work with |support )?(?:in )?"
    r"(?:fp|float)16"
    r"|(?:requires?|needs?|must (?:be|use)|only (?:supports?|works? (?:with|in))|only) (?:in )?(?:bf16|bfloat[ -]?16)"
    r"|\b(?:suited|suitable|designed|meant) (?:for|to use) (?:bf16|bfloat[ -]?16)",
    re.IGNORECASE,
)
"""Matches reasons against float16 in comments and messages."""
NAMES_NUMBERS = re.compile(r"fp16|float16|half|bf16|bfloat[ -]?16", re.IGNORECASE)
CACHE = re.compile(r"\w*(?:KV|[Kk]v_?)[Cc]ache\w*|(?:setup|init|make|create|allocate|build)_\w*caches?|StaticCache")
ROTARY = re.compile(r"\w*(?:freqs_cis|rotary|rope_cache|rope_table|Rotary|Rope)\w*")


def reason_to_keep(source: PythonSource, node: ast.expr) -> str:
    """Return the reason to keep this use of bfloat16, or an empty string if there is none."""
    statement = source.names.statement(node)
    if _is_beyond_float16(source, node):
        return BEYOND_FLOAT16
    if _is_on_cpu(source, node):
        return ON_CPU
    if is_saved(source, node, statement):
        return SAVED
    if _is_of_table(source, node):
        return TABLE
    if _is_default_of_optimizer(source, node):
        return STATE
    if _is_asserted(source, node, statement):
        return ASSERTED
    if _is_in_asserted_branch(source, node):
        return ASSERTED_BRANCH
    if is_unread_option(source, node):
        return UNREAD
    return kernel_around(source, node)


def _is_beyond_float16(source: PythonSource, node: ast.expr) -> bool:
    """Return True if the tensor holds a constant beyond float16's range: `torch.full(shape, -1e9, dtype=...)`."""
    above = source.names.parent(node)
    call = source.names.parent(above) if isinstance(above, ast.keyword) else above
    match call:
        case ast.Call(func=ast.Attribute(attr="to" | "type", value=held)):
            return _holds_wide(held)
        case ast.Call(args=[_, filled, *_]) if tail_of(call) in FILLS:
            return _holds_wide(filled)
    return isinstance(above, ast.Call) and above.func is node and _holds_wide(node)


def _holds_wide(expression: ast.expr) -> bool:
    held = (each.value for each in ast.walk(expression) if isinstance(each, ast.Constant))
    return any(isinstance(value, float) and FLOAT16_MAX < value < math.inf for value in held)


def _is_asserted(source: PythonSource, node: ast.expr, statement: ast.stmt) -> bool:
    """Return True if the value is cast to bfloat16 or assigned, and an assertion requires bfloat16 for the name."""
    names = source.remember("asserted-bf16", lambda: frozenset(_asserted(source)))
    if not names:
        return False
    for above in source.names.ancestors(node):
        if isinstance(above, ast.Call) and isinstance(above.func, ast.Attribute) and above.func.attr == "to":
            return written(source, above.func.value) in names
        if isinstance(above, ast.stmt):
            break
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(written(source, target) in names for target in targets)


def _is_in_asserted_branch(source: PythonSource, node: ast.expr) -> bool:
    """Return True if an `if` around the node has a condition under which this file asserts bfloat16."""
    conditions = asserted_conditions(source)
    if not conditions:
        return False
    child: ast.AST = node
    for above in source.names.ancestors(node):
        if isinstance(above, ast.If) and child in above.body and source.segment(above.test) in conditions:
            return True
        child = above
    return False


def _asserted(source: PythonSource) -> Iterator[str]:
    """Yield the values of `assert value.dtype == torch.bfloat16`."""
    for each in source.names.of_type(ast.Assert):
        for test in each.test.values if isinstance(each.test, ast.BoolOp) else [each.test]:
            match test:
                case ast.Compare(left=ast.Attribute(value=held, attr="dtype"), ops=[ast.Eq() | ast.Is()]):
                    if source.names.meaning(test.comparators[0]) == "torch.bfloat16":
                        yield written(source, held)


def _is_of_table(source: PythonSource, node: ast.expr) -> bool:
    """Return True for a dtype in a function or class that creates a key-value cache or rotary tables.

    The file must cast the results of the tables with `.type_as(`.
    """
    for above in source.names.ancestors(node):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
            within = source.names.parent(above)
            called = within.name if above.name == "__init__" and isinstance(within, ast.ClassDef) else above.name
            if CACHE.fullmatch(called):
                return True
            return ROTARY.fullmatch(called) is not None and b".type_as(" in source.text
    return False


def _is_default_of_optimizer(source: PythonSource, node: ast.expr) -> bool:
    """Return True for the default of an argument of an optimizer's constructor."""
    above = source.names.parent(node)
    function = source.names.parent(above) if isinstance(above, ast.arguments) else None
    within = source.names.parent(function) if isinstance(function, ast.FunctionDef) else None
    bases = [source.segment(base) for base in within.bases] if isinstance(within, ast.ClassDef) else []
    return any(base.rpartition(".")[2] == "Optimizer" for base in bases)


def is_explained(source: PythonSource, node: ast.expr) -> bool:
    """Return True if a comment or message beside the statement gives a reason against float16."""
    statement = source.names.statement(node)
    if any(RANGE.search(comment) and NAMES_NUMBERS.search(comment) for comment in _comments(source, statement)):
        return True
    if any(RANGE.search(comment) for comment in _trailing(source, node)):
        return True
    return any(_warns(source, each) for each in block_of(source, statement) if each is not statement)


def _comments(source: PythonSource, statement: ast.stmt) -> list[str]:
    """Return the comment above the statement as one line of text, in a list, or an empty list."""
    lines, at = _lines(source), statement.lineno - 2
    found: list[str] = []
    while at >= 0 and lines[at].strip().startswith("#"):
        found.insert(0, lines[at].strip(" \t#"))
        at -= 1
    return [" ".join(found)] if found else []


def _trailing(source: PythonSource, node: ast.expr) -> list[str]:
    """Return the comment at the end of the node's line."""
    line = _lines(source)[(node.end_lineno or node.lineno) - 1]
    rest = line.encode()[node.end_col_offset or 0 :].decode("utf-8", "replace")
    return [rest.partition("#")[2]] if "#" in rest and not ({"'", '"'} & set(rest.partition("#")[0])) else []


def _lines(source: PythonSource) -> list[str]:
    return source.remember("lines", lambda: source.text.decode("utf-8", "replace").splitlines())


def _warns(source: PythonSource, statement: ast.stmt) -> bool:
    """Return True for a warning or a print whose message gives a reason against float16."""
    match statement:
        case ast.Expr(value=ast.Call() as call) if tail_of(call) in (
            "warning",
            "warn",
            "info",
            "warning_once",
            "print",
        ):
            text = source.segment(statement)
            return RANGE.search(" ".join(text.replace('"', "").replace("'", "").split())) is not None
    return False


def _is_on_cpu(source: PythonSource, node: ast.expr) -> bool:
    """Return True for a load with `device_map="cpu"` in a file that never moves anything to a card."""
    if b"cuda" in source.text:
        return False
    above = source.names.parent(node)
    call = source.names.parent(above) if isinstance(above, ast.keyword) else None
    if not isinstance(call, ast.Call):
        return False
    maps = (each.value for each in call.keywords if each.arg == "device_map")
    return any("cpu" in source.segment(each) for each in maps)
