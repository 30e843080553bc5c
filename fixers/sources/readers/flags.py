"""Find readers that set a bf16 flag by a comparison: `bf16=args.precision == "bf16"`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.sources.chosen_words import constant_of
from fixers.sources.python import PythonSource
from fixers.sources.readers.branches import reader_of
from fixers.sources.readers.comparisons import Test, test_of
from fixers.sources.readers.displays import Found, names_bfloat16

BF16_NAME = re.compile(r"bf16|bfloat16", re.IGNORECASE)


def find_comparison(source: PythonSource, node: ast.Compare) -> Iterator[Found]:
    """Yield the reader of `bf16=args.precision == "bf16"`.

    The reader accepts all values that the function compares the option with.
    """
    above = source.names.parent(node)
    test = test_of(source, node)
    if test is None or not test.equal or not names_bfloat16(test.words) or not _sets_bfloat16(source, above, node):
        return
    function, subject = source.names.function(node), source.segment(test.subject)
    words = list(test.words)
    for each in source.names.of_type(ast.Compare):
        other = test_of(source, each) if source.names.function(each) is function else None
        if other is not None and source.segment(other.subject) == subject:
            words += other.words
    yield reader_of(source, node, Test(test.subject, tuple(words), True), strict=True, spot=None)


def _sets_bfloat16(source: PythonSource, above: ast.AST | None, node: ast.Compare) -> bool:
    """Return True if the result is passed or assigned to a name that contains bf16 or bfloat16."""
    match above:
        case ast.keyword(arg=str(name)):
            return BF16_NAME.search(name) is not None
        case ast.Assign(targets=[target]):
            return BF16_NAME.search(source.segment(target)) is not None
        case ast.Dict():
            key = above.keys[above.values.index(node)] if node in above.values else None
            return BF16_NAME.search(str(constant_of(key))) is not None
    return False
