"""JSON nodes have exact byte ranges, and the values of json.loads."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixers.sources.json_nodes import MAX_VALUES, JsonString, json_string, read_json
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
            raw = data[child.span.start : child.span.end]
            assert json.loads(raw) == value_of(child)


def test_comments_trailing_commas_and_a_byte_order_mark_are_skipped():
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
def test_invalid_json_is_rejected_with_its_line(data, line):
    with pytest.raises(Unparsable) as refusal:
        read_json(data)
    assert refusal.value.line == line


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b'{"a": 1,\n "a": 2}', 2, "duplicate key 'a'"),
        (b'{"a": {"b": 1,\n "b": 2}}', 2, "duplicate key 'b'"),
        (b"{} x", 1, "unexpected data after the JSON value"),
        (b"\n[1 2]", 2, "expected a comma or ]"),
        (b'{"a" 1}', 1, "expected a quoted key and a colon"),
        (b"{a: 1}", 1, "expected a JSON value"),
        (b"{1: 2}", 1, "expected a quoted key and a colon"),
        (b"[1,\n]", 2, "trailing comma"),
        (b'{"a": 1,}', 1, "trailing comma"),
        (b"[1, // one\n2]", 1, "expected a JSON value"),
        (b"/* one */ 1", 1, "expected a JSON value"),
        (b'["a', 1, "expected a JSON value"),
        (b'"\n"', 1, "expected a JSON value"),
        (b'{"a": ', 1, "unexpected end of file"),
        (b'\n\n["\xff"]', 3, "byte 4 is not UTF-8"),
        (b"[" * 202, 1, "nested more than 200 levels deep"),
        (b"[,]", 1, "expected a JSON value"),
        (b"tru", 1, "expected a JSON value"),
    ],
)
def test_strict_json_refuses_what_the_standard_does_and_names_the_line(data, line, words):
    with pytest.raises(Unparsable) as refusal:
        read_json(data, strict=True)
    assert (refusal.value.message, refusal.value.line) == (words, line)


def test_strict_json_keeps_numbers_as_written_and_strings_have_positions():
    data = '\ufeff {"ä": ["b", -1.5e3, 1e-4, -0.50, true, null, {}, []]}\n'.encode()
    node = read_json(data, strict=True)
    items = node.get("ä").items
    assert json_string(data, items[0]) == JsonString("b", "b", data.index(b'"b"') + 1)
    assert [json_string(data, each) for each in items[1:]] == [None] * 7
    assert [each.text for each in items[1:6]] == ["-1.5e3", "1e-4", "-0.50", "true", "null"]
    assert data[json_string(data, items[0]).end : json_string(data, items[0]).end + 1] == b'"'
    assert read_json(b"[" * 201 + b"]" * 201, strict=True)


@pytest.mark.parametrize(
    ("written", "offset", "start"),
    [
        (r"a\ud83d\ude00b", 1, 1), (r"a\ud83d\ude00b", 5, 13), (r"\ud83dx", 3, 6), (r"\ud83d\ud83d\ude00", 3, 6),
        (r"\\ud83d", 1, 2), (r"\n\t\"", 2, 4), ("é\u20ac", 2, 2), (r"\u00e9x", 2, 6), (r"\ude00x", 3, 6),
    ],
)  # fmt: skip
def test_a_character_is_found_behind_escapes_surrogate_pairs_and_lone_surrogates(written, offset, start):
    data = f'"{written}"'.encode()
    string = json_string(data, read_json(data))
    assert string.file_offset(offset) == 1 + start
    assert string.file_offset(string.utf8_length) == string.end


def test_SE_a_file_with_very_many_values_is_not_parsed(monkeypatch):
    assert MAX_VALUES == 500_000
    monkeypatch.setattr("fixers.sources.json_nodes.MAX_VALUES", 5_000)
    with pytest.raises(Unparsable, match="more than 5,000 values and keys"):
        read_json(b"[" + b"1," * 5_001 + b"1]")
