"""Find the line of a module that raises an error if float16 is selected."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from fixers.sources.expressions import tail_of
from fixers.sources.lines import holds_any, line_spans
from fixers.sources.splice import line_of
from fixers.sources.syntax import parse_python

MENTIONS = (b"float16", b"fp16", b"half")
CANDIDATE = re.compile(
    rb"^[ \t]*(?:el)?(?P<branch>if\b[^\n]*\b(?:\w*_)?(?:float16|fp16|half)\b[^\n]*:)[^\n]*\n"
    rb"(?:[ \t]*#[^\n]*\n)*[ \t]*raise\b"
    rb"|^[ \t]*(?P<assertion>assert\b[^\n]*(?:\b(?:\w*_)?(?:float16|fp16|half)\b|\.dtype[ ]*(?:==|is)[ ]*torch\.bf)"
    rb"[^\n]*)",
    re.MULTILINE,
)
ONLY_BF16 = re.compile(r"\.dtype (?:==|is) torch\.bfloat16\b")
HALF = re.compile(r"(?:.*[_.])?(?:float16|fp16|half)", re.IGNORECASE)
BF16 = re.compile(r"(?:.*[_.])?(?:bfloat16|bf16)", re.IGNORECASE)
TO_FLOAT32 = re.compile(r"\.float\(\)|\bfloat32\b")
OTHERS = re.compile(r"(?:.*[_.])?(?:(?:b?float|fp|bf)(?:16|32|64)|tf32|no|int8|fp8)", re.IGNORECASE)


def line_that_refuses(source: bytes) -> int:
    """Return the first line that raises an error for float16 on a card, or 0 if no line does."""
    if not holds_any(source, (b"raise", b"assert")):
        return 0
    found = (CANDIDATE.match(source, start) for start, _ in line_spans(source, MENTIONS))
    lines = (line_of(source, each.start()) for each in found if each and _float16_leads_to_error(each))
    return next((line for line in lines if not _is_passed(source, line)), 0)


def _is_passed(source: bytes, line: int) -> bool:
    """Return True if no float16 on a card reaches the line, or if the line accepts every value that reaches it."""
    try:
        nodes = list(ast.walk(parse_python(source)))
    except SyntaxError:
        return False
    if any(_leads_elsewhere(each, line) for each in nodes):
        return True
    return _requires_own_bfloat16(nodes, line) or _checks_float32_argument(nodes, line)


def _requires_own_bfloat16(nodes: list[ast.AST], line: int) -> bool:
    """Return True if the line asserts bfloat16 for a value that is no argument of the function around it.

    The code that creates such a value is in the same function, and keeps bfloat16.
    """
    checks = (each for each in nodes if isinstance(each, ast.Assert) and each.lineno == line)
    return any(ONLY_BF16.search(ast.unparse(each.test)) and not _names_argument(each, nodes) for each in checks)


def _names_argument(check: ast.Assert, nodes: list[ast.AST]) -> bool:
    """Return True if the assertion names an argument of a function, other than `self` and `cls`."""
    functions = [each for each in nodes if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    around = [each for each in functions if each.lineno < check.lineno <= (each.end_lineno or 0)]
    given = {each.arg for function in around for each in (*function.args.posonlyargs, *function.args.args)}
    named = {each.id for each in ast.walk(check.test) if isinstance(each, ast.Name)}
    return not (given - {"self", "cls", "ctx"}).isdisjoint(named)


def _leads_elsewhere(node: ast.AST, line: int) -> bool:
    """Return True for an `if` whose test never holds for float16 on a card, and whose block contains the line.

    The same holds for its `else`, if the test always holds.
    """
    if not isinstance(node, ast.If) or not node.lineno < line <= (node.end_lineno or 0):
        return False
    held = _evaluate(node.test)
    block = node.body if held is False else node.orelse if held else []
    return any(each.lineno <= line <= (each.end_lineno or 0) for each in block)


def _checks_float32_argument(nodes: list[ast.AST], line: int) -> bool:
    """Return True if the line asserts the dtype of an argument that every call in the module casts to float32."""
    for function in (each for each in nodes if isinstance(each, ast.FunctionDef)):
        names = [each.arg for each in function.args.args]
        for statement in (each for each in function.body if each.lineno == line and isinstance(each, ast.Assert)):
            checked = [name for name in names if ast.unparse(statement.test).startswith(f"{name}.dtype ")]
            return bool(checked) and _all_cast(nodes, function.name, checked[0], names.index(checked[0]))
    return False


def _all_cast(nodes: list[ast.AST], function: str, name: str, position: int) -> bool:
    """Return True if the module calls the function, and if each call casts this argument to float32."""
    assigned = [each for each in nodes if isinstance(each, ast.Assign) and _is_cast(each.value, ())]
    casts = [target.id for each in assigned for target in each.targets if isinstance(target, ast.Name)]
    calls = [each for each in nodes if isinstance(each, ast.Call) and tail_of(each) == function]
    return bool(calls) and all(_is_cast(_passed(call, name, position), casts) for call in calls)


def _passed(call: ast.Call, name: str, position: int) -> ast.expr | None:
    named = (each.value for each in call.keywords if each.arg == name)
    return next(named, call.args[position] if position < len(call.args) else None)


def _is_cast(value: ast.expr | None, casts: Collection[str]) -> bool:
    """Return True for an expression that casts to float32, and for a variable with such a value."""
    if isinstance(value, ast.Name):
        return value.id in casts
    return value is not None and TO_FLOAT32.search(ast.unparse(value)) is not None


def _float16_leads_to_error(found: re.Match[bytes]) -> bool:
    """Return True if float16 leads to the error.

    A condition with an unknown value counts if it compares with float16.
    """
    text = (
        f"{found['branch'].decode('utf-8', 'replace')} pass"
        if found["branch"]
        else found["assertion"].decode("utf-8", "replace")
    )
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    assert isinstance(statement, (ast.If, ast.Assert))
    holds = _evaluate(statement.test)
    raises = holds if isinstance(statement, ast.If) or holds is None else not holds
    return raises if raises is not None else any(_is_compared_with_half(each) for each in ast.walk(statement.test))


def _evaluate(test: ast.expr) -> bool | None:
    """Return the value of the test when float16 is selected on a card and bfloat16 is not, or None if it is unknown."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            held = _evaluate(inner)
            return None if held is None else not held
        case ast.BoolOp(op=joined, values=values):
            decisive = isinstance(joined, ast.Or)
            parts = [_evaluate(each) for each in values]
            return decisive if decisive in parts else None if None in parts else not decisive
        case ast.Compare(left=left, ops=[operation], comparators=[right]):
            return _compares(left, operation, right)
        case ast.Call() if tail_of(test) == "is_available":
            return True
        case ast.Call(func=ast.Name(id="all" | "any"), args=[ast.GeneratorExp(elt=each) | ast.ListComp(elt=each)]):
            return _evaluate(each)
        case ast.Name() | ast.Attribute():
            return _is_selected(test)
    return None


def _compares(left: ast.expr, operation: ast.cmpop, right: ast.expr) -> bool | None:
    words = right.elts if isinstance(right, (ast.Tuple, ast.List, ast.Set)) else [right]
    equal = _equals(left, words)
    return equal if equal is None or isinstance(operation, (ast.Eq, ast.Is, ast.In)) else not equal


def _equals(left: ast.expr, words: list[ast.expr]) -> bool | None:
    """Return True or False for `left in words` when float16 is selected on a card, or None if the result is unknown."""
    switches = [_is_selected(each) for each in (left, *words)]
    if len(words) == 1 and None not in switches and not isinstance(words[0], ast.Constant):
        return switches[0] == switches[1] if _is_switch(left) else switches[1]
    named = [_word(each) for each in words]
    if any(HALF.fullmatch(name) and not BF16.fullmatch(name) for name in named):
        return None if _is_switch(left) else True
    return False if named and all(_is_other(name) for name in named) else None


def _is_other(name: str) -> bool:
    """Return True for the name of another precision, or of a device that is not a card."""
    return name in ("cpu", "mps", "xla") or OTHERS.fullmatch(name) is not None


def _is_switch(node: ast.expr) -> bool:
    """Return True if the expression is a switch, such as `args.fp16`, and not a dtype, such as `torch.float16`."""
    return _is_selected(node) is not None and not _word(node).startswith("torch.")


def _is_selected(node: ast.expr) -> bool | None:
    name = _word(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
    return False if BF16.fullmatch(name) else True if HALF.fullmatch(name) else None


def _is_compared_with_half(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    words = [part for each in node.comparators for part in ast.walk(each) if isinstance(part, ast.expr)]
    return any(HALF.fullmatch(_word(each)) and not BF16.fullmatch(_word(each)) for each in words)


def _word(node: ast.expr) -> str:
    """Return a string, the string in `torch.device("cpu")`, a name with dots, or "" for other expressions."""
    if isinstance(node, ast.Call) and tail_of(node) == "device" and len(node.args) == 1:
        return _word(node.args[0])
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
