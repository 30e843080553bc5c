"""Find branches that run only if a flag or a comparison selects bfloat16."""

from __future__ import annotations

import ast
import re

from fixers.frame.code_traits import ON_BY_DEFAULT
from fixers.frame.config_keys import keys_of
from fixers.sources.expressions import tail_of, values_of, written
from fixers.sources.python import PythonSource

NAMES_BFLOAT16 = re.compile(r"bf16|bfloat", re.IGNORECASE)
OTHER_DEVICES = ("cpu", "xla", "hpu", "npu", "xpu", "mps", "tpu")
FINDS_OTHER = re.compile(
    r"\b(?:xla|hpu|npu|xpu|mps|mlu)\.is_available$|\bis_(?:torch_)?(?:xla|hpu|npu|xpu|mps|mlu|ipex|tpu)_available$"
)
HALVES = ("torch.float16", "torch.half")
PARSES_ARGUMENTS = re.compile(rb"\b(?:HfArgumentParser|TrlParser)\(")
OF_TRAINING = re.compile(r"(?:^|\.)_?train(?:ing|er)?_?arg(?:ument)?s\.(?:bf16|fp16)$")
NAMES_HALF = re.compile(r"fp16|float16(?<!bfloat16)|\bhalf\b", re.IGNORECASE)


def is_selected_choice(source: PythonSource, choice: ast.IfExp, child: ast.AST) -> bool:
    """Return True for the body of `bfloat16 if args.bf16 else float16`.

    The `else` part, or an assignment to the same name just before, must select float16, unless the test compares an
    existing dtype, as in `bfloat16 if x.dtype == bfloat16 else y`.
    """
    if child is choice.body and _is_flag(source, choice.test) and source.names.meaning(choice.orelse) in HALVES:
        return True
    if child is not choice.body or not _names_bfloat16(source, choice.test):
        return False
    if NAMES_HALF.search(source.segment(choice.orelse)):
        return True
    if _compares_dtype(source, choice.test):
        return not isinstance(choice.orelse, ast.Constant) and "float32" not in source.segment(choice.orelse)
    statement = source.names.statement(choice)
    before = _statement_before(source, statement)
    return (
        isinstance(statement, ast.Assign)
        and isinstance(before, ast.Assign)
        and written(source, before.targets[0]) == written(source, statement.targets[0])
        and NAMES_HALF.search(source.segment(before.value)) is not None
    )


def is_selected_branch(source: PythonSource, branch: ast.If, child: ast.AST) -> bool:
    """Return True for the body of `elif args.bf16:` if another branch, or a neighbouring `if`, selects float16."""
    other = _otherwise(source, branch)
    if child in branch.body and other is not None and _is_flag(source, branch.test) and _makes_half(source, other):
        return True
    if child not in branch.body or not _names_bfloat16(source, branch.test):
        return False
    if _compares_dtype(source, branch.test):
        return not _accepts_half(source, branch.test)
    top = _top(source, branch)
    own = [part for each in branch.body for part in [source.segment(each)]]
    rest = source.segment(top)
    for text in (*own, source.segment(branch.test)):
        rest = rest.replace(text, "", 1)
    if NAMES_HALF.search(rest):
        return True
    beside = (_statement_before(source, top), _statement_after(source, top))
    return any(isinstance(each, ast.If) and NAMES_HALF.search(source.segment(each.test)) for each in beside)


def _otherwise(source: PythonSource, branch: ast.If) -> ast.stmt | None:
    """Return the only statement of the `else` branch, or the statement after a branch that returns, or None."""
    if not branch.orelse and isinstance(branch.body[-1], ast.Return):
        return _statement_after(source, branch)
    return branch.orelse[0] if len(branch.orelse) == 1 else None


def _is_flag(source: PythonSource, test: ast.expr) -> bool:
    """Return True if the test is a bfloat16 switch that is off by default, such as `args.bf16`."""
    named = _name_of_flag(test)
    if not NAMES_BFLOAT16.search(named) or ON_BY_DEFAULT.search(source.text):
        return False
    return named not in _switched_on(source)


def _name_of_flag(test: ast.expr) -> str:
    """Return `bf16` for `bf16`, `args.bf16` and `getattr(args, "bf16", False)`, or "" for other expressions."""
    match test:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), ast.Constant(value=False)]):
            return name
    return ""


def _makes_half(source: PythonSource, statement: ast.stmt) -> bool:
    """Return True if the statement casts to float16, as in `x = x.half()`, or assigns or returns the dtype float16."""
    if not isinstance(statement, (ast.Assign, ast.Return, ast.Expr)) or statement.value is None:
        return False
    value = statement.value
    if isinstance(value, ast.Call) and tail_of(value) in ("half", "to"):
        given = [*value.args, *values_of(value)]
        return tail_of(value) == "half" or any(source.names.meaning(each) in HALVES for each in given)
    return source.names.meaning(value) in HALVES


def is_without_fp16(source: PythonSource, test: ast.expr, *selected: ast.AST) -> bool:
    """Return True if the test is `training_args.fp16`, and the code that runs if it is true (`selected`) names float16.

    Then the `else` is the code for training without fp16.
    """
    inner = (each for node in selected for each in ast.walk(node) if isinstance(each, ast.expr))
    return is_flag_of_trainer(source, test, "fp16") and any(source.names.meaning(each) in HALVES for each in inner)


def is_flag_of_trainer(source: PythonSource, test: ast.expr, flag: str = "bf16") -> bool:
    """Return True if the test is a flag of Trainer arguments (`training_args.bf16`), or an `and` with such a flag.

    In a file that parses Trainer arguments, every `x.bf16` counts as a flag of Trainer.
    """
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    flags = [written(source, each) for each in parts if isinstance(each, ast.Attribute) and each.attr == flag]
    return any(OF_TRAINING.search(each) for each in flags) or (
        bool(flags) and PARSES_ARGUMENTS.search(source.text) is not None
    )


def selects_other_device(test: ast.expr) -> bool:
    """Return True if the test is true only on devices other than CUDA: `device == "cpu"`, `torch.xpu.is_available()`.

    An `and` counts if one of its operands is such a test.
    """
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(selects_other_device(each) for each in test.values)
    if isinstance(test, ast.Call):
        return FINDS_OTHER.search(ast.unparse(test.func)) is not None
    return _compares_with_device(test, (ast.Eq, ast.In))


def excludes_other_device(test: ast.expr) -> bool:
    """Return True if the test is false on devices other than CUDA: `device.type != "cpu"`."""
    return _compares_with_device(test, (ast.NotEq, ast.NotIn))


def _compares_with_device(test: ast.expr, operators: tuple[type[ast.cmpop], ...]) -> bool:
    if not (isinstance(test, ast.Compare) and isinstance(test.ops[0], operators)):
        return False
    compared = test.comparators[0]
    words = compared.elts if isinstance(compared, (ast.Tuple, ast.List, ast.Set)) else [compared]
    return all(isinstance(each, ast.Constant) and each.value in OTHER_DEVICES for each in words)


def _names_bfloat16(source: PythonSource, test: ast.expr) -> bool:
    """Return True if the test selects bfloat16, and does not read a config key or a flag that is on by default.

    A config key is excluded only if this file reads it and reads no float16 key beside it: the fixers keep such a key,
    and change the code in its branch.
    """
    text = source.segment(test)
    if isinstance(test, ast.UnaryOp) or not NAMES_BFLOAT16.search(text) or any(key in text for key in _keys(source)):
        return False
    operators = (operator for each in ast.walk(test) if isinstance(each, ast.Compare) for operator in each.ops)
    if any(isinstance(operator, (ast.NotEq, ast.NotIn, ast.IsNot)) for operator in operators):
        return False
    if isinstance(test, ast.Attribute) and ON_BY_DEFAULT.search(source.text):
        return False
    return not (isinstance(test, ast.Name) and test.id in _switched_on(source))


def _keys(source: PythonSource) -> tuple[str, ...]:
    return source.remember("own-keys", lambda: keys_of(source.text).unpaired)


def _switched_on(source: PythonSource) -> frozenset[str]:
    """Return the names of variables that this file sets to True, and of arguments with the default True."""
    return source.remember("switched-on", lambda: frozenset(_find_switched_on(source)))


def _find_switched_on(source: PythonSource) -> set[str]:
    found: set[str] = set()
    for node in source.names.of_type(ast.Assign):
        if isinstance(node.value, ast.Constant) and node.value.value is True:
            found |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    for arguments in source.names.of_type(ast.arguments):
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
        pairs += [
            (one, default) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default
        ]
        found |= {one.arg for one, default in pairs if isinstance(default, ast.Constant) and default.value is True}
    return found


def _compares_dtype(source: PythonSource, test: ast.expr) -> bool:
    """Return True if the test compares an existing dtype with bfloat16.

    The branch of this test only preserves that dtype.
    """
    return any(
        source.names.meaning(each) == "torch.bfloat16"
        for compare in ast.walk(test)
        if isinstance(compare, ast.Compare)
        for each in (compare.left, *compare.comparators)
    )


def _accepts_half(source: PythonSource, test: ast.expr) -> bool:
    """Return True if the test is also true for float16: `x == float16 or x == bfloat16`, `x in (float16, bfloat16)`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return any(_accepts_half(source, each) for each in test.values)
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Eq, ast.Is, ast.In)):
        return False
    compared = test.comparators[0]
    dtypes = compared.elts if isinstance(compared, (ast.Tuple, ast.List, ast.Set)) else [compared]
    return any(source.names.meaning(each) in HALVES for each in dtypes)


def _top(source: PythonSource, branch: ast.If) -> ast.If:
    """Return the first `if` of the if/elif chain that the branch belongs to."""
    above = source.names.parent(branch)
    while isinstance(above, ast.If) and above.orelse == [branch]:
        branch, above = above, source.names.parent(above)
    return branch


def _statement_before(source: PythonSource, statement: ast.stmt) -> ast.stmt | None:
    return _neighbour(source, statement, -1)


def _statement_after(source: PythonSource, statement: ast.stmt) -> ast.stmt | None:
    return _neighbour(source, statement, 1)


def _neighbour(source: PythonSource, statement: ast.stmt, step: int) -> ast.stmt | None:
    above = source.names.parent(statement)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(above, name, None)
        if isinstance(block, list) and statement in block:
            at = block.index(statement) + step
            return block[at] if 0 <= at < len(block) else None
    return None
