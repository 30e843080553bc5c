"""Options, choices and tables of a script get a float16 entry beside their bfloat16 entry."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.code.bf16_forms.lightning import TRUE_WORD
from fixers.code.draft import Draft
from fixers.settings.precision_words import IS_BF16, MEANS_PRECISION, TWINS, fp16_name, option
from fixers.sources.chosen_words import constant_of, rewritten_literal
from fixers.sources.gates import is_gated, names_bf16, names_bf16_in_pattern
from fixers.sources.names import Names

DECLARES = ("add_argument", "add_option", "option", "Option")
CHOOSES = ("Choice", "Literal")
HALF_WORDS = frozenset({"fp16", "float16", "half", "16", "16-mixed", "torch.float16"})
SAFETENSORS = frozenset({"F32", "F16", "F64"})
"""Names of dtypes in the header of a safetensors file: a table of them describes files."""
NAMED = (ast.Attribute, ast.Name)
WORD = re.compile(rb"[Bb](?:[Ff]|[Ff][Ll][Oo][Aa][Tt])16")
WHY_FLAG = "commands use --fp16 on this card"
WHY_WORD = "configs and commands use float16 on this card"


def find_vocabulary(draft: Draft) -> None:
    """Add float16 to options, choices and tables that have only bfloat16."""
    if not _has_quoted_word(draft.source.text):
        return
    names = draft.source.names
    options = [call for call in names.of_type(ast.Call) if _tail(call.func) in DECLARES]
    known = frozenset(str(constant_of(word)) for call in options for word in call.args)
    for call in options:
        _teach_option(draft, call, known)
    for display in names.of_type(ast.Dict):
        _teach_table(draft, display)
    _warn_of_branches(draft, names)


def _has_quoted_word(text: bytes) -> bool:
    """Return True if a word for bfloat16 follows a quote in its line: a cheap test that skips most modules."""
    for word in WORD.finditer(text):
        before = text[text.rfind(b"\n", 0, word.start()) + 1 : word.start()]
        if b'"' in before or b"'" in before:
            return True
    return False


def _tail(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _teach_option(draft: Draft, call: ast.Call, known: frozenset[str]) -> None:
    """Add `--fp16` as another name of the option `--bf16`, with the same destination, and float16 to the choices."""
    for word in call.args:
        flag = constant_of(word)
        if isinstance(flag, str) and flag.startswith("--") and IS_BF16.fullmatch(option(flag)):
            twin = fp16_name(flag)
            written = isinstance(word, ast.Constant) and rewritten_literal(draft.source, word, twin)
            if twin not in known and written:
                draft.edits.append(draft.source.insert(draft.source.span(word)[1], f", {written}", WHY_FLAG))
    if any(MEANS_PRECISION.fullmatch(option(str(constant_of(word)))) for word in call.args):
        for display in _choices(call):
            _teach_choices(draft, display)


def _choices(call: ast.Call) -> Iterator[ast.List | ast.Tuple]:
    for keyword in call.keywords:
        value = keyword.value
        if isinstance(value, ast.Call) and _tail(value.func) in CHOOSES and value.args:
            value = value.args[0]
        elif keyword.arg != "choices":
            continue
        if isinstance(value, (ast.List, ast.Tuple)):
            yield value


def _teach_choices(draft: Draft, display: ast.List | ast.Tuple) -> None:
    words = [constant_of(each) for each in display.elts]
    for each in display.elts:
        written = _twin_literal(draft, each, words)
        if written:
            words.append(TWINS[str(constant_of(each))])
            draft.edits.append(draft.source.insert(draft.source.span(each)[1], f", {written}", WHY_WORD))


def _teach_table(draft: Draft, display: ast.Dict) -> None:
    """Insert a row for float16 before the row for bfloat16."""
    if is_gated(draft.source, display):
        return
    words = [constant_of(key) for key in display.keys]
    if SAFETENSORS.intersection(words):
        return
    for key, value in zip(display.keys, display.values, strict=True):
        if constant_of(key) == TRUE_WORD:
            continue
        written, dtype = _twin_literal(draft, key, words), _twin_value(draft, value)
        if key is not None and written and dtype:
            row = f"{written}: {dtype}, "
            draft.edits.append(draft.source.insert(draft.source.span(key)[0], row, WHY_WORD))


def _twin_literal(draft: Draft, node: ast.expr | None, words: list[object]) -> str | None:
    """Return the literal of the float16 word; None if it is already present or the node is not a word for bfloat16."""
    word = constant_of(node)
    if not isinstance(node, ast.Constant) or not isinstance(word, str) or TWINS.get(word, word) in words:
        return None
    return rewritten_literal(draft.source, node, TWINS[word])


def _twin_value(draft: Draft, value: ast.expr) -> str | None:
    if isinstance(value, ast.Constant):
        return rewritten_literal(draft.source, value, TWINS[value.value]) if value.value in TWINS else None
    if isinstance(value, ast.Attribute) and draft.source.names.meaning(value) == "torch.bfloat16":
        return f"{draft.source.segment(value.value)}.float16"
    return None


def _warn_of_branches(draft: Draft, names: Names) -> None:
    """Warn about `if name == "bf16": dtype = torch.bfloat16` in a file without a word for float16."""
    branches = list(_branches(draft, names))
    if not branches or HALF_WORDS.intersection(constant_of(node) for node in names.of_type(ast.Constant)):
        return
    for test, body in branches:
        inside = (node for each in body for node in ast.walk(each) if isinstance(node, NAMED))
        if any(names.meaning(node) == "torch.bfloat16" for node in inside):
            message = "this branch handles bfloat16, and no branch handles the float16 that is used on this card"
            draft.warn(test, message, hint="add a branch for fp16")


def _branches(draft: Draft, names: Names) -> Iterator[tuple[ast.expr | ast.stmt, list[ast.stmt]]]:
    """Yield the branches that a word for bfloat16 selects: `if name == "bf16":` and `case "bf16":`."""
    source = draft.source
    for branch in names.of_type(ast.If):
        if WORD.search(source.text, *source.span(branch.test)) and names_bf16(source, branch.test):
            yield branch.test, branch.body
    for case in names.of_type(ast.match_case):
        if names_bf16_in_pattern(case):
            yield case.body[0], case.body
