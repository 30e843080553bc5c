"""Finding the innermost syntax node at a position."""

import ast

import pytest

from fixers.sources.innermost import innermost

CODE = """\
import a
@deco(x)
@other
def f(b, *, c=d):
    return [e
            for e in g]
x = f'{h}'; y = i
"""


@pytest.mark.parametrize(
    ("line", "column", "found"),
    [
        (1, 0, "import a"), (1, 7, "a"), (1, 8, ""), (2, 0, CODE[CODE.index("def"):CODE.index("\nx =")]),
        (2, 1, "deco"), (2, 5, "deco(x)"), (2, 6, "x"), (2, 7, "deco(x)"), (3, 1, "other"), (3, 5, "other"),
        (4, 0, CODE[CODE.index("def"):CODE.index("\nx =")]), (4, 6, "b"), (4, 12, "c"), (4, 14, "d"),
        (5, 4, "return [e\n            for e in g]"), (5, 11, "[e\n            for e in g]"), (5, 12, "e"),
        (6, 16, "e"), (6, 21, "g"), (6, 22, "[e\n            for e in g]"), (7, 12, "y"), (7, 13, "y = i"),
        (7, 16, "i"),        (7, 10, ""), (9, 0, ""),
    ],
)  # fmt: skip
def test_the_smallest_node_that_covers_a_position_is_found(line, column, found):
    node = innermost(ast.parse(CODE), line, column)
    assert (ast.get_source_segment(CODE, node) or "") == found
