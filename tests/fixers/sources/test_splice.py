"""Edits of byte ranges, and line endings."""

from __future__ import annotations

import pytest

from fixers.sources.splice import Edit, EditRefused, line_of, newline_of, splice


@pytest.mark.parametrize(
    ("data", "newline"),
    [
        (b"", b"\n"),
        (b"a", b"\n"),
        (b"a\nb\r\n", b"\n"),
        (b"a\r\nb\n", b"\r\n"),
        (b"a\rb\r", b"\r"),
        (b"a\rb\r\n", b"\r"),
        (b"\na\r", b"\n"),
        (b"\ra\n", b"\r"),
        (b"a\r", b"\r"),
    ],
)
def test_an_inserted_line_ends_like_the_first_line_of_the_file(data: bytes, newline: bytes) -> None:
    assert newline_of(data) == newline


def test_lines_are_counted_from_one_whatever_ends_them() -> None:
    assert [line_of(b"a\nb\r\nc\rd", at) for at in range(9)] == [1, 1, 2, 2, 3, 3, 3, 4, 4]


def test_edits_are_made_in_the_order_of_their_places() -> None:
    edits = [Edit(4, b"e", b"EE", ""), Edit(0, b"a", b"", ""), Edit(2, b"", b"+", ""), Edit(2, b"c", b"C", "")]
    assert splice(b"abcde", edits) == b"b+CdEE"


@pytest.mark.parametrize(
    ("edits", "message", "offset"),
    [
        ([Edit(1, b"x", b"y", "why")], "expected b'x' at this position (why)", 1),
        ([Edit(4, b"ef", b"y", "why")], "expected b'ef' at this position (why)", 4),
        ([Edit(0, b"ab", b"", "one"), Edit(1, b"b", b"", "two")], "two edits overlap (two)", 1),
        ([Edit(0, b"x" * 80, b"", "long")], f"expected {b'x' * 60!r} at this position (long)", 0),
    ],
)
def test_an_impossible_edit_is_rejected_with_its_position(edits: list[Edit], message: str, offset: int) -> None:
    with pytest.raises(EditRefused) as caught:
        splice(b"abcde", edits)
    assert (caught.value.message, caught.value.offset) == (message, offset)
