"""JSON nodes know their bytes; what json.loads says, they say."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixers.sources.json_spans import read_json
from fixers.sources.nodes import Mapping, Scalar, Sequence, walk
from fixers.sources.unparsable import Unparsable
from fixers.sources.yaml_values import duplicates

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def value_of(node):
    if isinstance(node, Mapping):
        return {key.text: value_of(value) for key, value in node.entries}
    if isinstance(node, Sequence):
        return [value_of(item) for item in node.items]
    return node.text if node.style else json.loads(node.text)


@settings(max_examples=200, deadline=None)
@given(VALUES, st.sampled_from([None, 0, 2, "\t"]), st.booleans())
def test_any_json_is_read_as_json_reads_it(value, indent, ascii_only):
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace")
    node = read_json(data)
    assert value_of(node) == json.loads(data)
    for _, _, child in walk(node):
        if isinstance(child, Scalar):
            raw = data[child.place.start : child.place.end]
            assert json.loads(raw) == value_of(child)


def test_comments_trailing_commas_and_a_byte_order_mark_are_read_over():
    node = read_json(b'\xef\xbb\xbf// a\n{"a": [1, 2,], /* b */ "c": "d",}\r\n// e')
    assert value_of(node) == {"a": [1, 2], "c": "d"}


def test_both_of_two_equal_keys_are_kept():
    node = read_json(b'{"a": 1,\n "a": 2}')
    assert [value.text for _, value in node.entries] == ["1", "2"]
    assert [(d.first.line, d.second.line) for d in duplicates(node)] == [(1, 2)]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", 1), (b'{"a": 1', 1), (b'{"a" 1}', 1), (b"[1 2]", 1), (b'{\n"a": tru}', 2), (b"{} x", 1), (b"\n'a'", 2),
        (b'["\xff"]', 1), (b"{a: 1}", 1), (b"[" * 5000, 1), (b'"a\nb"', 1), (b"[,]", 1), (b"01", 1),
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused_with_its_line(data, line):
    with pytest.raises(Unparsable) as refusal:
        read_json(data)
    assert refusal.value.line == line
