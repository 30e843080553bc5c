"""Names that code may compose of text and values."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixers.plans.composed_names import Composed, composed_in

NAMES = [b"load", b"load_wav", b"_load_mel", b"save_mel", b"mel", b"loader"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (b"getattr(self, f'load_{kind}')", [b"load_wav"]),
        (b"getattr(self, f'_load_{kind}')", [b"_load_mel"]),
        (b"getattr(self, f'{verb}_mel')", [b"_load_mel", b"save_mel"]),
        (b"names[f'{verb}_mel']", [b"save_mel"]),
        (b"getattr(self, 'load' + kind)", [b"load", b"load_wav", b"loader"]),
        (b"getattr(self, '%s_mel' % verb)", [b"_load_mel", b"save_mel"]),
        (b"names[f'{verb}el']", []),
        (b"getattr(self, kind)", []),
    ],
)
def test_a_text_with_values_may_be_a_name(code: bytes, expected: list[bytes]) -> None:
    composed = composed_in(code)
    assert [name for each in composed for name in each.among(b"\n".join(NAMES))] == expected
    assert [name for name in NAMES if any(each.may_be(name) for each in composed)] == expected


@given(st.lists(st.text("ab", max_size=3), min_size=2, max_size=4), st.text("ab", min_size=1, max_size=8))
def test_each_value_may_be_any_part_of_the_name(parts: list[str], name: str) -> None:
    composed = Composed("{x}".join(parts).encode(), is_attribute=True)
    assert composed.may_be(name.encode()) is (re.fullmatch(r"\w*".join(parts), name) is not None)


def test_SE_a_text_with_many_values_is_searched_in_linear_time() -> None:
    composed = Composed(b"{x}a" * 200 + b"{x}b", is_attribute=True)
    assert composed.among(b"a" * 2_000 + b"\n" + b"ab" * 200 + b"b") == [b"ab" * 200 + b"b"]


def test_SE_many_calls_in_a_line_are_read_in_linear_time() -> None:
    assert composed_in(b"getattr(" * 50_000) == ()
