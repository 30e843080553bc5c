"""Add float16 entries to options, choices, tables and branches that accept only bfloat16."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from fixers.code.bf16_forms.lightning import TRUE_WORD
from fixers.code.bf16_forms.new_branches import Insertion, new_branch, new_case, new_choice
from fixers.code.draft import Draft
from fixers.settings.precision_words import COUNTERPARTS, IS_BF16, fp16_name, option
from fixers.sources.chosen_words import constant_of, rewritten_literal
from fixers.sources.expressions import tail_of
from fixers.sources.gates import is_gated
from fixers.sources.readers.branches import asserted_conditions, condition_of
from fixers.sources.readers.consumers import BF16Value, Consumers
from fixers.sources.readers.displays import DECLARES
from fixers.sources.readers.find import find_readers, may_contain_readers
from fixers.sources.readers.reader import ANY, Reader
from fixers.sources.readers.subjects import NAMES_PRECISION

WORD = re.compile(rb"[Bb](?:[Ff]|[Ff][Ll][Oo][Aa][Tt])16")
WHY_FLAG = "commands use --fp16 on this card"
WHY_WORD = "configs and commands use float16 on this card"


def extend_vocabulary(
    draft: Draft, consumers: Consumers, off_is_half: Collection[str] = (), passed: Collection[str] | None = None
) -> None:
    """Add float16 to options, choices, tables and branches that accept bfloat16 and no float16.

    `off_is_half`: switches that select float16 when they are off. Their options do not get `--fp16` as a second name.
    `passed`: the bfloat16 options that commands pass, or None if this is unknown. An option that is on by default gets
    a second name only if it is in `passed`, or if `passed` is None.
    """
    if not may_contain_readers(draft.source.text) and not _has_quoted_word(draft.source.text):
        return
    _add_option_names(draft, off_is_half, passed)
    _warn_of_asserts(draft)
    extended: set[tuple[int, str]] = set()
    for found in find_readers(draft.source):
        for word in _missing(found.reader, consumers):
            if found.spot is None or is_gated(draft.source, found.spot):
                break
            counterpart = COUNTERPARTS[word] if isinstance(found.spot, (ast.Constant, ast.Dict, ast.Call)) else ""
            if (id(found.spot), counterpart) not in extended:
                extended.add((id(found.spot), counterpart))
                _add_spelling(draft, found.spot, word)


def _warn_of_asserts(draft: Draft) -> None:
    """Report conditional asserts for bfloat16. If the condition is true, a program in float16 fails."""
    for node in draft.source.names.of_type(ast.Assert):
        condition = condition_of(draft.source, node)
        if condition is not None and (written := draft.source.segment(condition)) in asserted_conditions(draft.source):
            message = f"if {written} is true, this accepts only bfloat16, and this card has no bfloat16"
            draft.warn(node, message, hint="a program for this card cannot use this branch")


def _has_quoted_word(text: bytes) -> bool:
    """Return True if the text may contain a quoted bfloat16 value. This fast search excludes most modules."""
    for word in WORD.finditer(text):
        before = text[text.rfind(b"\n", 0, word.start()) + 1 : word.start()]
        if b'"' in before or b"'" in before:
            return True
    return False


def _add_option_names(draft: Draft, off_is_half: Collection[str], passed: Collection[str] | None) -> None:
    options = [call for call in draft.source.names.of_type(ast.Call) if tail_of(call) in DECLARES]
    known = frozenset(str(constant_of(word)) for call in options for word in call.args)
    known |= {fp16_name(f"--{name}") for name in off_is_half}
    for call in options:
        _add_option_name(draft, call, known, passed if _is_on(call) else None)


def _is_on(call: ast.Call) -> bool:
    """Return True if the option is on by default: `default=True`, or `typer.Option(True, ...)`."""
    defaults = [each.value for each in call.keywords if each.arg == "default"]
    return any(constant_of(each) is True for each in (*defaults, *call.args[:1]))


def _add_option_name(draft: Draft, call: ast.Call, known: frozenset[str], passed: Collection[str] | None) -> None:
    """Add `--fp16` as another name of the option `--bf16`, with the same destination, if the option may be passed."""
    for word in call.args:
        flag = constant_of(word)
        if isinstance(flag, str) and flag.startswith("--") and IS_BF16.fullmatch(option(flag)):
            counterpart = fp16_name(flag)
            written = isinstance(word, ast.Constant) and rewritten_literal(draft.source, word, counterpart)
            if counterpart not in known and written and (passed is None or option(flag).lower() in passed):
                draft.edits.append(draft.source.insert(draft.source.span(word)[1], f", {written}", WHY_FLAG))


def _missing(reader: Reader, consumers: Consumers) -> list[str]:
    """Return the reader's bfloat16 values whose float16 counterparts the reader must also accept."""
    if not reader.strict or not (reader.option == ANY or NAMES_PRECISION.fullmatch(reader.option)):
        return []
    words = [word for word in reader.words if word in COUNTERPARTS and (reader.display or word != TRUE_WORD)]
    return [word for word in words if _is_missing(reader, word, consumers)]


def _is_missing(reader: Reader, word: str, consumers: Consumers) -> bool:
    for value in _selections_of(reader, word, consumers):
        if reader not in consumers.readers_of(value):
            continue
        spelling = consumers.resolve(value, COUNTERPARTS[word])
        if spelling.refused_by == reader or (spelling.refused_by is None and not reader.accepts(spelling.word)):
            return True
    return False


def _selections_of(reader: Reader, word: str, consumers: Consumers) -> list[BF16Value]:
    """Return the bfloat16 values of the project that are spelled like `word`.

    If the project's values are unknown, return one value for each option that the reader may read.
    """
    if consumers.selected is not None:
        return [each for each in consumers.selected if each.word == word and not each.to_float32]
    options = [reader.option]
    if reader.option == ANY:
        options += [each.option for each in consumers.readers if each.option != ANY]
    return [BF16Value(each, word, reader.path) for each in dict.fromkeys(options)]


def _add_spelling(draft: Draft, spot: ast.expr | ast.If | ast.match_case, word: str) -> None:
    insertion = _insertion(draft, spot, word)
    if insertion is not None:
        draft.edits.append(draft.source.insert(insertion.at, insertion.text, WHY_WORD))


def _insertion(draft: Draft, spot: ast.expr | ast.If | ast.match_case, word: str) -> Insertion | None:
    source = draft.source
    match spot:
        case ast.If():
            return new_branch(source, spot)
        case ast.match_case():
            return new_case(source, spot)
        case ast.IfExp():
            return new_choice(source, spot)
        case ast.Dict():
            return _new_row(draft, spot, word)
        case ast.Call():
            return _new_keyword(draft, spot, word)
        case ast.Constant():
            written = rewritten_literal(source, spot, COUNTERPARTS[word])
            return Insertion(source.span(spot)[1], f", {written}") if written else None
    return None


def _new_row(draft: Draft, table: ast.Dict, word: str) -> Insertion | None:
    """Return the insertion of a float16 row before the bfloat16 row, or None."""
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == word:
            written, dtype = rewritten_literal(draft.source, key, COUNTERPARTS[word]), _counterpart_value(draft, value)
            if written and dtype:
                return Insertion(draft.source.span(key)[0], f"{written}: {dtype}, ")
    return None


def _new_keyword(draft: Draft, table: ast.Call, word: str) -> Insertion | None:
    """Return the insertion of `fp16=torch.float16, ` before the bfloat16 keyword of a `dict(...)` call, or None."""
    for keyword in table.keywords:
        dtype = _counterpart_value(draft, keyword.value) if keyword.arg == word else None
        if dtype:
            return Insertion(draft.source.span(keyword)[0], f"{COUNTERPARTS[word]}={dtype}, ")
    return None


def _counterpart_value(draft: Draft, value: ast.expr) -> str | None:
    if isinstance(value, ast.Constant):
        counterpart = COUNTERPARTS.get(str(value.value))
        return rewritten_literal(draft.source, value, counterpart) if counterpart else draft.source.segment(value)
    if isinstance(value, ast.Attribute) and draft.source.names.meaning(value) == "torch.bfloat16":
        return f"{draft.source.segment(value.value)}.float16"
    return None
