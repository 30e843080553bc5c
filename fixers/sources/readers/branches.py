"""Find readers in branches: if/elif chains, match statements, conditional expressions, and asserts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import tail_of
from fixers.sources.gates import tests_card
from fixers.sources.names import FUNCTIONS
from fixers.sources.python import PythonSource
from fixers.sources.readers.comparisons import Test, test_of, word_of
from fixers.sources.readers.displays import Found, display_of, names_bfloat16
from fixers.sources.readers.reader import BF16_WORD, Reader, shown
from fixers.sources.readers.subjects import folds_case, owner_of, subject_of, without_cast

HALVES = ("float16", "half")
EXITS = ("exit", "_exit", "abort", "error", "fail")


def find_if_chain(source: PythonSource, first: ast.If) -> Iterator[Found]:
    """Yield the reader of an if/elif chain over one option, or of `if x not in (...): raise`."""
    above = source.names.parent(first)
    test = test_of(source, first.test)
    if test is None or (isinstance(above, ast.If) and above.orelse == [first]):
        return
    if test.equal:
        yield from _if_chain(source, first, test)
    elif _raises_or_exits(first.body) and names_bfloat16(_plain(test.words)):
        yield reader_of(source, first, test, strict=True, spot=_spot_in(source, first.test))


def _if_chain(source: PythonSource, first: ast.If, test: Test) -> Iterator[Found]:
    branches = list(_branches(source, first, source.segment(without_cast(test.subject))))
    bf16_branch = next((branch for branch, found in branches if names_bfloat16(_plain(found.words))), None)
    if bf16_branch is None:
        return
    words = (*_before(source, first, test), *(word for _, found in branches for word in found.words))
    rest = branches[-1][0].orelse
    if not rest:
        rest, words = _after(source, branches[-1][0], test, words)
    if _selects_half(rest):
        return
    strict = _raises_or_exits(rest) or (_selects_dtype(bf16_branch.body) and not _is_open(source, bf16_branch, rest))
    spot = bf16_branch if strict and copies_in_one_line(bf16_branch.body) else None
    yield reader_of(source, bf16_branch, Test(test.subject, words, True), strict=strict, spot=spot)


def _plain(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(shown(word) for word in words)


def _branches(source: PythonSource, first: ast.If, subject: str) -> Iterator[tuple[ast.If, Test]]:
    """Yield the branches of the chain that test the same subject."""
    branch: ast.If | None = first
    while branch is not None:
        test = test_of(source, branch.test)
        if test is not None and test.equal and source.segment(without_cast(test.subject)) == subject:
            yield branch, test
        branch = branch.orelse[0] if len(branch.orelse) == 1 and isinstance(branch.orelse[0], ast.If) else None


def _before(source: PythonSource, first: ast.If, test: Test) -> list[str]:
    """Return the values tested by the `if` statements directly before this one, if each of them returns or raises."""
    block, subject = _block_of(source, first), source.segment(without_cast(test.subject))
    words: list[str] = []
    for each in reversed(block[: block.index(first)] if first in block else []):
        if not isinstance(each, ast.If) or each.orelse or not isinstance(each.body[-1], (ast.Return, ast.Raise)):
            break
        found = test_of(source, each.test)
        if found is None or not found.equal or source.segment(without_cast(found.subject)) != subject:
            break
        words += found.words
    return words


def _after(
    source: PythonSource, last: ast.If, test: Test, words: tuple[str, ...]
) -> tuple[list[ast.stmt], tuple[str, ...]]:
    """Return the default statement of a chain without `else`, and all values that the chain tests.

    The default statement is a `return` or `raise` after the chain. If there is none, the list is empty.
    """
    block = _block_of(source, last)
    subject = source.segment(without_cast(test.subject))
    rest = block[block.index(_root(source, last, block)) + 1 :] if block else []
    while rest and isinstance(rest[0], ast.If):
        further = list(_branches(source, rest[0], subject))
        if not further:
            break
        words = (*words, *(word for _, found in further for word in found.words))
        rest = [*further[-1][0].orelse, *rest[1:]]
    reached = (
        rest and isinstance(rest[0], (ast.Return, ast.Raise)) and isinstance(last.body[-1], (ast.Return, ast.Raise))
    )
    return (rest[:1] if reached else []), words


def _block_of(source: PythonSource, node: ast.stmt) -> list[ast.stmt]:
    above = source.names.parent(node)
    while isinstance(above, ast.If) and above.orelse == [node]:
        node, above = above, source.names.parent(above)
    blocks = (getattr(above, name, None) for name in ("body", "orelse", "finalbody", "handlers"))
    return next((block for block in blocks if isinstance(block, list) and node in block), [])


def _root(source: PythonSource, node: ast.stmt, block: list[ast.stmt]) -> ast.stmt:
    while node not in block:
        above = source.names.parent(node)
        assert isinstance(above, ast.stmt)
        node = above
    return node


def _raises_or_exits(body: Sequence[ast.stmt]) -> bool:
    """Return True if the block raises or exits the program."""
    for each in body:
        if isinstance(each, ast.Raise) or (isinstance(each, ast.Assert) and constant_of(each.test) is False):
            return True
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and tail_of(each.value) in EXITS:
            return True
    return False


def _selects_half(body: Sequence[ast.stmt]) -> bool:
    return any(_is_dtype(node, HALVES) for each in body for node in ast.walk(each))


def _selects_dtype(body: Sequence[ast.stmt]) -> bool:
    """Return True if the block assigns or returns the dtype bfloat16."""
    values = [each.value for each in body if isinstance(each, (ast.Assign, ast.AnnAssign, ast.Return))]
    parts = [part for value in values for part in (value.elts if isinstance(value, ast.Tuple) else [value])]
    return any(part is not None and _is_dtype(part, ("bfloat16",)) for part in parts)


def _is_open(source: PythonSource, bf16_branch: ast.If, rest: Sequence[ast.stmt]) -> bool:
    """Return True if the chain accepts float16 without a float16 branch: by its `else`, its default or later code."""
    if rest:
        return not any(_is_dtype(node, ("float32", "float", "bfloat16")) for each in rest for node in ast.walk(each))
    names = {source.segment(t) for each in bf16_branch.body if isinstance(each, ast.Assign) for t in each.targets}
    block = _block_of(source, bf16_branch)
    before = block[: block.index(_root(source, bf16_branch, block))] if block else []
    for each in reversed(before):
        if isinstance(each, ast.Assign) and names & {source.segment(target) for target in each.targets}:
            return any(_is_dtype(node, HALVES) for node in ast.walk(each.value))
    return bool(bf16_branch.body) and isinstance(bf16_branch.body[-1], ast.Return)


def _is_dtype(node: ast.AST, names: Sequence[str]) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in names


def copies_in_one_line(body: Sequence[ast.stmt]) -> bool:
    """Return True if the block is one simple statement that fits on one line, so that it can be copied."""
    return len(body) == 1 and isinstance(body[0], (ast.Assign, ast.AnnAssign, ast.Return)) and _selects_dtype(body)


def _spot_in(source: PythonSource, test: ast.expr) -> ast.expr | None:
    """Return the bfloat16 string in a list, tuple or set of strings, or None.

    Another string can be inserted after it.
    """
    for node in ast.walk(test):
        if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Name, ast.Attribute)):
            display = display_of(source, node)
            for each in display.elts if display is not None else ():
                if BF16_WORD.fullmatch(str(constant_of(each))):
                    return each
    return None


def find_conditional(source: PythonSource, node: ast.IfExp) -> Iterator[Found]:
    """Yield the reader of `torch.bfloat16 if x == "bf16" else torch.float32`, including chained conditionals."""
    test = test_of(source, node.test)
    if test is None or not test.equal or not names_bfloat16(_plain(test.words)):
        return
    words, rest = test.words, node.orelse
    while isinstance(rest, ast.IfExp):
        further = test_of(source, rest.test)
        words, rest = (*words, *(further.words if further and further.equal else ())), rest.orelse
    above = source.names.parent(node)
    while isinstance(above, ast.IfExp):
        earlier = test_of(source, above.test)
        words, above = (*(earlier.words if earlier else ()), *words), source.names.parent(above)
    if _is_dtype(rest, HALVES):
        return
    strict = _is_dtype(rest, ("float32", "float", "bfloat16")) and _is_dtype(node.body, ("bfloat16",))
    yield reader_of(source, node, Test(test.subject, words, True), strict=strict, spot=node if strict else None)


def find_match(source: PythonSource, node: ast.Match) -> Iterator[Found]:
    """Yield the reader of a match statement over strings."""
    words: list[str] = []
    bf16_branch: ast.match_case | None = None
    for case in node.cases:
        values = [word_of(source, each.value) for each in ast.walk(case.pattern) if isinstance(each, ast.MatchValue)]
        known = [value for value in values if value is not None]
        if bf16_branch is None and names_bfloat16(tuple(known)):
            bf16_branch = case
        words += known
    rest = node.cases[-1].body if _is_wildcard(node.cases[-1].pattern) else []
    if bf16_branch is None or _selects_half(rest):
        return
    strict = _raises_or_exits(rest) or _selects_dtype(bf16_branch.body)
    spot = bf16_branch if strict and copies_in_one_line(bf16_branch.body) else None
    yield reader_of(source, bf16_branch.body[0], Test(node.subject, tuple(words), True), strict=strict, spot=spot)


def _is_wildcard(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def find_assert(source: PythonSource, node: ast.Assert) -> Iterator[Found]:
    """Yield the reader of `assert x in ("bf16", "fp32")`.

    The reader is not strict inside an `if` about another option.
    """
    test = test_of(source, node.test)
    if test is not None and test.equal and names_bfloat16(_plain(test.words)):
        spot = _spot_in(source, node.test)
        strict = spot is not None or condition_of(source, node) is None
        yield reader_of(source, node, test, strict=strict, spot=spot)


def condition_of(source: PythonSource, node: ast.stmt) -> ast.expr | None:
    """Return the test of the innermost `if` whose body contains the statement, and that tests no option and no card.

    Return None if there is no such `if` in the function around the statement.
    """
    child: ast.AST = node
    for above in source.names.ancestors(node):
        if isinstance(above, (*FUNCTIONS, ast.ClassDef)):
            return None
        if isinstance(above, ast.If) and child in above.body and not _tests_option(source, above.test):
            return above.test
        child = above
    return None


def _tests_option(source: PythonSource, test: ast.expr) -> bool:
    return test_of(source, test) is not None or tests_card(source, test)


def asserted_conditions(source: PythonSource) -> dict[str, str]:
    """Return the conditions under which the file asserts that an option is bfloat16.

    Each value is the place of the assertion as `path:line`.
    """
    return source.remember("asserted-conditions", lambda: dict(_asserted_conditions(source)))


def _asserted_conditions(source: PythonSource) -> Iterator[tuple[str, str]]:
    for node in source.names.of_type(ast.Assert):
        test, condition = test_of(source, node.test), condition_of(source, node)
        if condition is not None and test is not None and test.equal:
            words = _plain(test.words)
            if words and all(BF16_WORD.fullmatch(word) for word in words):
                yield source.segment(condition), source.where(node)


def reader_of(
    source: PythonSource,
    node: ast.expr | ast.stmt,
    test: Test,
    *,
    strict: bool,
    spot: ast.expr | ast.If | ast.match_case | None,
) -> Found:
    option = subject_of(source, test.subject) or ""
    folds = folds_case(test.subject)
    words = tuple(dict.fromkeys(test.words))
    owner, display = owner_of(source, node), isinstance(spot, ast.Constant)
    return Found(Reader(source.path, node.lineno, option, words, strict, spot is not None, folds, owner, display), spot)
