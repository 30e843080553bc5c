"""Scalars of YAML, positions of its nodes, and walking a document."""

import math

import pytest

from fixers.sources.json_nodes import read_json
from fixers.sources.nodes import Mapping, Scalar, Sequence, find, walk
from fixers.sources.yaml_nodes import Limits, YamlProblem, compose, compose_all
from fixers.sources.yaml_values import duplicates, plain


def value(text):
    return plain(compose(f"k: {text}\n"))["k"]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("true", True), ("True", True), ("TRUE", True), ("tRUE", "tRUE"), ("on", True), ("ON", True), ("Yes", True),
        ("false", False), ("NO", False), ("off", False), ("y", "y"), ("Null", None), ("NULL", None), ("nULL", "nULL"),
        ("+3", 3), ("-0x1f", -31), ("+0b11", 3), ("-010", -8), ("00", 0), ("08", "08"), ("1_0", 10), ("_1", "_1"),
        ("0o8", "0o8"), ("1.5", 1.5), ("-1_0.5", -10.5), ("1e3", 1000.0), ("1E+3", 1000.0), (".5e1", 5.0), ("1e", "1e"),
        (".inf", math.inf), ("+.INF", math.inf), ("-.Inf", -math.inf), (".iNF", ".iNF"), (".", "."), ("1.2.3", "1.2.3"),
        ("'1'", "1"), ('"true"', "true"), ("!!str true", "true"), ("!!int 5", 5), ("[1, x]", [1, "x"]),
        ("{1: 2}", {1: 2}),
    ],
)  # fmt: skip
def test_a_scalar_means_what_yaml_1_1_says(text, meaning):
    assert value(text) == meaning
    assert type(value(text)) is type(meaning)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a: &a {x: 1}\nb: {<<: *a, y: 2}\n", {"x": 1, "y": 2}),
        ("a: &a {x: 1}\nb: {x: 3, <<: *a}\n", {"x": 3}),
        ("a: &a {x: 1}\nc: &c {x: 2}\nb: {<<: [*a, *c]}\n", {"x": 1}),
        ("b: {'<<': 1}\n", {"<<": 1}),
        ("b: {x: 1, x: 2}\n", {"x": 2}),
    ],
)
def test_own_keys_override_merged_ones_and_the_first_merged_mapping_wins(text, meaning):
    assert plain(compose(text))["b"] == meaning


@pytest.mark.parametrize(
    ("text", "words", "line", "column"),
    [
        ("a: 1\n? [b]\n: 2\n", "a key must be a single word", 2, 3),
        ("b:\n  <<: 1\n", "only a mapping can be merged", 2, 7),
        ("b:\n  <<: [{}, 1]\n", "only a mapping can be merged", 2, 12),
    ],
)
def test_a_node_without_a_plain_value_is_refused_with_its_position(text, words, line, column):
    with pytest.raises(YamlProblem) as refusal:
        plain(compose(text))
    assert (refusal.value.message, refusal.value.line, refusal.value.column) == (words, line, column)


def test_as_many_values_as_the_limit_are_made_and_no_more():
    document = compose("[1, [2, 3]]")
    assert plain(document, Limits(values=5)) == [1, [2, 3]]
    with pytest.raises(YamlProblem, match="aliases expand to more than 4 values"):
        plain(document, Limits(values=4))


def test_documents_are_read_to_the_depth_and_size_of_the_limits():
    assert compose("[[1]]", Limits(depth=3)) is not None
    with pytest.raises(YamlProblem, match="nested more than 2 levels deep"):
        compose("[[1]]", Limits(depth=2))
    with pytest.raises(YamlProblem, match="4 bytes; 3 is the limit"):
        compose("a: 1", Limits(bytes=3))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: 1\nb: 2\n", []),
        ("a: 1\na: 2\na: 3\n", [(("a",), 1, 2), (("a",), 1, 3)]),
        ("- {x: 1, y: {z: 1,\n z: 2}}\n", [((0, "y", "z"), 1, 2)]),
        ("a:\n  <<: 1\n  <<: 2\n", []),
        ("[a]: 1\n[a]: 2\n", []),
    ],
)
def test_a_key_written_twice_is_found_with_its_path(text, found):
    assert [(each.path, each.first.line, each.second.line) for each in duplicates(compose(text))] == found


def test_a_walk_is_in_order_and_visits_shared_nodes_once():
    document = compose("a: &x [1, {b: 2}]\nc: *x\n? [k]\n: 3\n")
    found = [(path, key.text if isinstance(key, Scalar) else None) for path, key, _ in walk(document)]
    assert found == [
        (("a",), "a"), (("a", 0), None), (("a", 1), None), (("a", 1, "b"), "b"), (("c",), "c"), (("?",), None),
    ]  # fmt: skip
    assert list(walk(None)) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), None), (("a", 0), "1"), (("a", 1, "b"), "2"), (("a", 2), None), (("a", -1), None),
        (("a", "b"), None), (("x",), None), ((0,), None),
    ],
)  # fmt: skip
def test_a_node_is_found_by_its_path(path, text):
    found = find(compose("a: [1, {b: 2}]"), path)
    assert (found.text if isinstance(found, Scalar) else None) == text
    assert (found is None) == (text is None and path != ())


@pytest.mark.parametrize("read", [lambda text: read_json(text.encode()), compose], ids=["json", "yaml"])
def test_a_collection_in_brackets_has_its_byte_range_and_its_style(read):
    text = '{"a": [1, {"b": "c"}], "d": []}'
    document = read(text)
    assert isinstance(document, Mapping) and document.flow
    found = {path: text[node.span.start : node.span.end] for path, _, node in walk(document)}
    assert found == {
        ("a",): '[1, {"b": "c"}]',
        ("a", 0): "1",
        ("a", 1): '{"b": "c"}',
        ("a", 1, "b"): '"c"',
        ("d",): "[]",
    }
    assert all(node.flow for _, _, node in walk(document) if isinstance(node, (Mapping, Sequence)))
    assert [(node.span.line, node.span.column) for _, _, node in walk(document)] == [
        (1, 7), (1, 8), (1, 11), (1, 17), (1, 29),
    ]  # fmt: skip


def test_a_block_collection_is_not_in_brackets():
    documents = compose_all("a:\n- 1\n---\nb:\n  c: 2\n")
    assert [node.flow for document in documents for node in (document, *(v for _, _, v in walk(document)))
            if not isinstance(node, Scalar)] == [False] * 4  # fmt: skip
