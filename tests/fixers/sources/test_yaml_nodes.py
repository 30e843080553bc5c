"""YAML nodes have exact byte ranges, and documents that are too expensive are refused."""

import math
import time

import pytest
import yaml

from fixers.sources import yaml_nodes
from fixers.sources.yaml_nodes import Limits, Mapping, Scalar, YamlProblem, compose, compose_all, find, walk
from fixers.sources.yaml_values import duplicates, plain

AWKWARD = {
    "crlf": b"a: bf16\r\nb:\r\n  c: 'bf16'\r\n",
    "bom": b"\xef\xbb\xbfa: bf16\n",
    "non-ascii before": "ü: é\nname: \U0001f600\nprecision: bf16\n".encode(),
    "no last line end": b"a: [x, bf16]",
    "anchor and tag": b"a: &p !!str bf16\nb: *p\nc: !!str\n  bf16\n",
    "anchor over lines": b"a: &base # why\n  k: bf16\nb:\n  <<: *base\n",
    "quotes": b"a: \"bf16\"\nb: 'bf16'\n'c': bf16 # bf16\n",
    "flow": b"a: {b: bf16, c: [1, bf16]}\n",
    "documents": b"---\na: bf16\n...\n---\nb: bf16\n",
    "block text": b"a: |\n  bf16\n  x\nb: >-\n  bf16\n",
    "spaces": b"a:    bf16   \nb  :  1\n",
    "empty values": b"a:\nb: ~\nc: !!null\n",
    "lone cr": b"a: bf16\rb: 1\r",
}


@pytest.fixture(params=["c", "python"])
def parser(request, monkeypatch):
    loader = yaml.SafeLoader if request.param == "python" else yaml_nodes.LOADER
    monkeypatch.setattr(yaml_nodes, "LOADER", loader)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("data", AWKWARD.values(), ids=AWKWARD)
def test_the_span_of_a_scalar_holds_exactly_its_bytes(data):
    seen = 0
    for document in compose_all(data):
        for _, key, value in walk(document):
            for node in (key, value):
                if isinstance(node, Scalar) and node.style in ("", "'", '"'):
                    raw = data[node.span.start : node.span.end].decode()
                    assert raw == f"{node.style}{node.text}{node.style}"
                    before = data[: node.span.start].decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
                    assert node.span.line == before.count("\n") + 1
                    seen += 1
    assert seen > 0


@pytest.mark.parametrize("data", AWKWARD.values(), ids=AWKWARD)
def test_both_parsers_of_pyyaml_give_the_same_nodes(data, monkeypatch):
    fast = compose_all(data)
    monkeypatch.setattr(yaml_nodes, "LOADER", yaml.SafeLoader)
    assert compose_all(data) == fast


def test_a_collection_ends_with_its_last_child():
    data = b"a:\n  b: 1\n  c: [2,\n    3]\n\nd: 4\n"
    inner = find(compose(data), ("a",))
    assert isinstance(inner, Mapping)
    assert data[inner.span.start : inner.span.end] == b"b: 1\n  c: [2,\n    3]"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("Off", False), ("no", False), ("n", "n"), ("~", None), ("", None), ("null", None),
        ("0x1F", 31), ("017", 15), ("0o17", 15), ("0b101", 5), ("1_000", 1000), ("-7", -7), ("0", 0), ("09", "09"),
        ("1e-5", 1e-5), ("2.0e-5", 2e-5), (".5", 0.5), ("1.", 1.0), ("-.inf", -math.inf), ("1e400", math.inf),
        ("22:22", "22:22"), ("2026-01-01", "2026-01-01"), ("'yes'", "yes"), ("!!str 5", "5"), ("1.2.3", "1.2.3"),
    ],
)  # fmt: skip
def test_a_plain_scalar_means_what_yaml_1_1_says(text, value):
    assert plain(compose(f"k: {text}\n")) == {"k": value}


def test_nan_is_a_number():
    assert math.isnan(plain(compose("k: .nan\n"))["k"])


def test_merges_are_applied_and_own_keys_win():
    text = "base: &b {x: 1, y: 2}\nother: &o {y: 3}\nrun:\n  <<: [*b, *o]\n  x: 9\n"
    assert plain(compose(text))["run"] == {"x": 9, "y": 2}


def test_BI_04_a_duplicate_key_is_found_with_both_lines():
    (duplicate,) = duplicates(compose("train:\n  lr: 1\n  seed: 2\n  lr: 3\nlr: 4\n"))
    assert duplicate.path == ("train", "lr")
    assert (duplicate.first.line, duplicate.second.line) == (2, 4)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("data", "words", "line", "column"),
    [
        pytest.param(b"a: 1\nb: [1, 2\nc: 3\n", "the [ in line 2 is not closed", 3, 2, id="bi_02_syntax"),
        pytest.param(b"b: [\n  1: 2: 3,\n]\n", "", 2, 7, id="inside_a_list_that_is_closed"),
        pytest.param(b"b: [[\nc: [0]\n", "the [ in line 1 is not closed", 3, 1, id="before_another_list"),
        pytest.param(b"a:\n\tb: 1\n", "a tab is used where YAML requires spaces", 2, 1, id="bi_03_tab"),
        pytest.param(b"a: *nowhere\n", "refers to no anchor", 1, 4, id="unknown_alias"),
        pytest.param(b"a: &x [1, *x]\n", "is inside the value that it refers to", 1, 11, id="alias_of_itself"),
        pytest.param(b"a: 1\nb: \xff\xfe\n", "byte 8 (0xff) is not UTF-8", 2, 4, id="bi_11_not_utf8"),
        pytest.param(b"a: 1\nb: \x01\n", "U+0001", 2, 4, id="control_character"),
        pytest.param(b"a: 1\n---\nb: 2\n", "second document", 3, 1, id="two_documents"),
    ],
)
def test_a_broken_document_is_refused_with_its_place(data, words, line, column):
    with pytest.raises(YamlProblem) as refusal:
        compose(data)
    assert words in refusal.value.message
    assert (refusal.value.line, refusal.value.column) == (line, column)


def test_BI_08_a_tag_is_rejected_and_constructs_nothing(tmp_path):
    canary = tmp_path / "canary"
    text = f"a: !!python/object/apply:os.system ['touch {canary}']\n"
    assert plain(compose(text)) == {"a": [f"touch {canary}"]}
    with pytest.raises(YamlProblem, match="tag") as refusal:
        compose(text, tags=False)
    assert (refusal.value.line, refusal.value.column) == (1, 4)
    assert not canary.exists()


def test_BI_09_a_billion_laughs_are_refused_at_once():
    lines = ["l0: &l0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    lines += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 40)]
    started = time.process_time()
    document = compose("\n".join(lines))
    with pytest.raises(YamlProblem, match="aliases expand to more than"):
        plain(document)
    assert sum(1 for _ in walk(document)) < 1000
    assert time.process_time() - started < 1.0


def test_a_chain_of_aliases_counts_as_depth():
    lines = ["l0: &l0 [x]"] + [f"l{i}: &l{i} [*l{i - 1}]" for i in range(1, 3000)]
    with pytest.raises(YamlProblem, match="nested more than 64"):
        compose("\n".join(lines))
    with pytest.raises(YamlProblem, match="nested more than 64"):
        compose("[" * 3000 + "]" * 3000)


def test_BI_10_a_document_over_the_limit_is_refused_unread():
    with pytest.raises(YamlProblem, match="1048576 is the limit"):
        compose(b"a: 1\n" * 2_000_000)
    assert compose(b"a: 1\n", Limits(bytes=5)) is not None


def test_SE_a_document_is_not_parsed_beyond_the_limit_of_values():
    with pytest.raises(YamlProblem, match=r"line 11, .* more than 11 values"):
        compose("- 1\n" * 11 + "]", Limits(values=11))
    with pytest.raises(YamlProblem, match="invalid YAML"):
        compose("- 1\n" * 11 + "]", Limits(values=12))


@pytest.mark.parametrize(
    ("text", "values"),
    [("a", 1), ("[]", 1), ("[a, b]", 3), ("{a: 1, b: 2}", 3), ("{a: [1, 2], b: {c: }}", 6), ("a: &x 1\nb: *x\n", 3)],
)
def test_the_parser_counts_the_values_that_plain_counts(text, values):
    enough, fewer = Limits(values=values), Limits(values=values - 1)
    assert plain(compose(text, enough), enough) == plain(compose(text))
    with pytest.raises(YamlProblem, match="more than"):
        compose(text, fewer)
    with pytest.raises(YamlProblem, match="more than"):
        plain(compose(text), fewer)


@pytest.mark.parametrize("data", [b"", b"# only words\n", b"---\n", "\ufeff".encode()])
def test_BI_01_an_empty_document_is_no_node_or_null(data):
    assert plain(compose(data)) is None
