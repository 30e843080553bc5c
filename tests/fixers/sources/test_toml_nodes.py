"""TOML nodes: exact positions, values of the standard library, and edits of one value."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixers.sources.nodes import Mapping, Scalar, find, walk
from fixers.sources.toml_nodes import read_toml
from fixers.sources.unparsable import Unparsable

WHOLE = b"""\xef\xbb\xbf# a comment with "quotes" and [brackets]
a.b.c = "x" # after
'quoted key' = 'C:\\path'
multi = \"\"\"one
[not.a.table]
bf16 = true\"\"\"
date = 1979-05-27 07:32:00
numbers = [ 1, 2.5e3, # comment ]
  -inf, ]
empty = []
inline = { x = 1, y.z = "deep", w = [{ v = true }] }
[table."dotted.name"]
flag = false
[[rows]]
name = "first"
[rows.more]
deep = '''literal'''
[[rows]]
name = "second\\u0021"
"""


def _plain(node):
    if isinstance(node, Mapping):
        return {key.text: _plain(value) for key, value in node.entries}
    return node.text if isinstance(node, Scalar) else [_plain(item) for item in node.items]


def test_every_table_array_and_string_is_where_the_node_says() -> None:
    node = read_toml(WHOLE)
    assert find(node, ("a", "b", "c")).text == "x"
    assert find(node, ("rows", 0, "more", "deep")).text == "literal"
    assert find(node, ("rows", 1, "name")).text == "second!"
    assert find(node, ("inline", "y", "z")).text == "deep"
    assert find(node, ("numbers", 2)).text == "-inf"
    for _, _, value in walk(node):
        if isinstance(value, Scalar) and value.style in ("'", '"'):
            assert WHOLE[value.span.start : value.span.end].decode() == f"{value.style}{value.text}{value.style}"
            assert WHOLE[: value.span.start].count(b"\n") + 1 == value.span.line


@pytest.mark.parametrize("data", [b"a = 1\nb = [", b"a = 'x", b"[a]\n[a]\n", b"a = \xff"])
def test_what_the_standard_library_refuses_is_refused(data: bytes) -> None:
    with pytest.raises(Unparsable):
        read_toml(data)


KEYS = st.text("ab-_", min_size=1, max_size=3)
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\x7f", exclude_categories=("Cc", "Cs"))
TEXTS = st.text(CHARACTERS, max_size=8)
VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def _written(value) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_written(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value).lower()


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.dictionaries(KEYS, VALUES, max_size=3))
def test_replacing_one_string_changes_that_value_only(top, table) -> None:
    data = "".join(f"{key} = {_written(value)}  # c\n" for key, value in top.items())
    data += "[zz]\n" + "".join(f"{key} = {_written(value)}\n" for key, value in table.items())
    raw = data.encode()
    before = tomllib.loads(data)
    node = read_toml(raw)
    for path, _, value in walk(node):
        if isinstance(value, Scalar) and value.style == '"':
            after = tomllib.loads((raw[: value.span.start] + b'"!!"' + raw[value.span.end :]).decode())
            assert _with(before, path, "!!") == after


def _with(value, path, new):
    if not path:
        return new
    step, *rest = path
    if isinstance(value, dict):
        return {key: _with(each, rest, new) if key == step else each for key, each in value.items()}
    return [_with(each, rest, new) if at == step else each for at, each in enumerate(value)]
