"""`"bfloat16"` and `"bf16"` as words: where a dtype or a precision is meant by keyword, key, name, default or flag."""

from __future__ import annotations

import ast
import re

from fixers.bf16_forms.verdict import Verdict, judge_place
from fixers.found import Found, constant_of

MEANS_PRECISION = re.compile(
    r"(?:.*[._-])?(?:d_?type|data_?type|precision|amp_type|autocast_type|mixed_precision)$", re.IGNORECASE
)
WORDS = {
    "bfloat16": "float16",
    "torch.bfloat16": "torch.float16",
    "bf16": "fp16",
    "BF16": "FP16",
    "bf16-mixed": "16-mixed",
}
LIGHTNING_WORDS = {"bf16": "16-mixed", "bf16-mixed": "16-mixed"}
TRUE_WORDS = ("bf16-true",)
LITERAL = re.compile(r"([rRuU]?)(\"\"\"|'''|\"|')(.*)\2", re.DOTALL)
OVERRIDE = re.compile(r"(\+{0,2}[\w.]*precision=)(bf16(?:-mixed)?)")
DEFAULTS = ("default", "const", "default_value", "value", "default_factory")
WHY = "no bfloat16 on this card"


def find_words(found: Found) -> None:
    """Edits for every word for bfloat16 that stands where a precision is chosen."""
    for node in found.source.names.of_type(ast.Constant):
        if not isinstance(node.value, str) or "bf" not in node.value.lower():
            continue
        if node.value in WORDS:
            _judge_word(found, node)
        elif node.value in TRUE_WORDS and _is_chosen(found, node):
            message = "bf16-true has no safe twin: use 16-mixed, with float32 weights"
            found.warn(node, message, hint='precision="16-mixed"')
        elif node.value == "--bf16":
            _judge_flag(found, node)
        else:
            _judge_override(found, node)


def _judge_word(found: Found, node: ast.Constant) -> None:
    if not _is_chosen(found, node):
        return
    judged = judge_place(found.source, node)
    if judged.verdict is Verdict.WARN:
        found.warn(node, judged.message)
    elif judged.verdict is Verdict.ACT:
        _replace(found, node, _twin(found, node))


def _twin(found: Found, node: ast.Constant) -> str:
    """Lightning says 16-mixed where others say fp16."""
    above = found.source.names.parent(node)
    call = found.source.names.parent(above) if isinstance(above, ast.keyword) else None
    if isinstance(above, ast.keyword) and isinstance(call, ast.Call) and above.arg == "precision":
        meaning = found.source.names.meaning(call.func) or ""
        if "lightning" in meaning.partition(".")[0]:
            return LIGHTNING_WORDS.get(str(node.value), WORDS[str(node.value)])
    return WORDS[str(node.value)]


def _is_chosen(found: Found, node: ast.expr) -> bool:
    """The word goes, at most through a choice between two, to something whose name says that it is a precision."""
    names = found.source.names
    child: ast.expr = node
    above = names.parent(child)
    while isinstance(above, (ast.IfExp, ast.BoolOp)) and not (isinstance(above, ast.IfExp) and child is above.test):
        child, above = above, names.parent(above)
    match above:
        case ast.keyword(arg=str(name)):
            return _means_precision(name) or (name in DEFAULTS and _is_default_of_precision(found, above))
        case ast.Dict():
            key = above.keys[above.values.index(child)] if child in above.values else None
            return _means_precision(constant_of(key))
        case ast.Assign():
            return any(_names_precision(target) for target in above.targets)
        case ast.AnnAssign():
            return child is above.value and _names_precision(above.target)
        case ast.arguments():
            return _is_default_argument(above, child)
        case ast.Call():
            return _is_fallback(found, above, child)
        case ast.List() | ast.Tuple():
            return _follows_flag(above, child)
    return False


def _means_precision(name: object) -> bool:
    return isinstance(name, str) and MEANS_PRECISION.match(name.lstrip("-")) is not None


def _names_precision(target: ast.expr) -> bool:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _means_precision(name)
        case ast.Subscript(slice=ast.Constant(value=name)):
            return _means_precision(name)
    return False


def _is_default_of_precision(found: Found, keyword: ast.keyword) -> bool:
    """`add_argument("--dtype", default=...)`, `dtype: str = field(default=...)`"""
    call = found.source.names.parent(keyword)
    if not isinstance(call, ast.Call):
        return False
    if any(_means_precision(constant_of(each)) for each in call.args):
        return True
    holder = found.source.names.parent(call)
    if isinstance(holder, ast.AnnAssign):
        return _names_precision(holder.target)
    return isinstance(holder, ast.Assign) and any(_names_precision(target) for target in holder.targets)


def _is_default_argument(arguments: ast.arguments, child: ast.expr) -> bool:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return any(default is child and _means_precision(argument.arg) for argument, default in pairs)


def _is_fallback(found: Found, call: ast.Call, child: ast.expr) -> bool:
    """`getattr(torch, "bfloat16")`, and the last argument of `get`, `setdefault`, `getattr`, `Option` after a name."""
    if child not in call.args:
        return False
    before = call.args[: call.args.index(child)]
    if len(before) == 1 and found.source.names.meaning(before[0]) == "torch":
        return isinstance(call.func, ast.Name) and call.func.id == "getattr"
    if found.source.names.meaning(call.func) in ("typer.Option", "typer.Argument"):
        return any(_means_precision(constant_of(each)) for each in call.args)
    return bool(before) and _means_precision(constant_of(before[-1]))


def _follows_flag(display: ast.List | ast.Tuple, child: ast.expr) -> bool:
    """`["accelerate", "launch", "--mixed_precision", "bf16"]`"""
    index = display.elts.index(child)
    flag = constant_of(display.elts[index - 1]) if index else None
    return isinstance(flag, str) and flag.startswith("--") and _means_precision(flag)


def _judge_flag(found: Found, node: ast.Constant) -> None:
    """`--bf16` as a word of a command that is built as a list."""
    above = found.source.names.parent(node)
    if isinstance(above, ast.List) and _is_command(found, above):
        _replace(found, node, "--fp16")


def _is_command(found: Found, display: ast.List) -> bool:
    words = [constant_of(each) for each in display.elts]
    if "--fp16" in words:
        return False
    return any(isinstance(word, str) and word.endswith((".py", "launch", "torchrun", "python", "-m")) for word in words)


def _judge_override(found: Found, node: ast.Constant) -> None:
    """`++model.precision=bf16` as a word of a command or a list of overrides."""
    above = found.source.names.parent(node)
    match = OVERRIDE.fullmatch(str(node.value))
    if match and isinstance(above, ast.List):
        _replace(found, node, match[1] + WORDS[match[2]])


def _replace(found: Found, node: ast.Constant, word: str) -> None:
    written = found.source.segment(node)
    literal = LITERAL.fullmatch(written)
    if literal is None or literal[3] != node.value:
        found.warn(node, f"{written} means bfloat16 and is not written in one piece; write {word!r}")
        return
    prefix, quote, _ = literal.groups()
    found.edits.append(found.source.replace_node(node, f"{prefix}{quote}{word}{quote}", WHY))
