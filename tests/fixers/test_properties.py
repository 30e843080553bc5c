"""For any input, a result parses, needs no second pass and changes nothing else; otherwise the input is refused."""

from __future__ import annotations

import ast
import itertools
import json
import tempfile
import warnings
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.frame.target import Target
from fixers.plans.file_plan import FileOutcome, plan_file
from fixers.plans.on_disk import apply_to_disk, undo_on_disk
from fixers.plans.site_plan import plan_fixes
from fixers.registry import source_fixers
from fixers.sources.json_nodes import json_string, read_json
from fixers.sources.nodes import Mapping, Node, Scalar, Sequence
from fixers.sources.splice import Edit, EditRefused, line_of, newline_of, splice
from fixers.sources.unparsable import Unparsable
from tests.fixers.casebook import TITAN_RTX, read_cases

TARGET = Target(TITAN_RTX)
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
ENCODINGS = st.sampled_from([("", "utf-8"), ("\ufeff", "utf-8"), ("# coding: latin-1\n", "latin-1")])
OUR_FAULTS = ("not settled", "would not parse", "overlap", "expected b", "after the rewrite")
MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _statements() -> list[str]:
    """Return the statements of all Python cases, of which other files are built."""
    pieces: list[str] = []
    for case in read_cases():
        if not case.path.endswith(".py"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                tree = ast.parse(case.before)
            except (SyntaxError, ValueError):
                continue
        pieces += [ast.unparse(statement) for statement in tree.body]
    return sorted(set(pieces))


PIECES = st.lists(st.sampled_from(_statements()), min_size=1, max_size=12)


def _plan(path: str, data: bytes) -> FileOutcome:
    return plan_file(path, data, source_fixers(), TARGET)


def _holds(path: str, data: bytes) -> FileOutcome:
    """Check the laws for one file."""
    outcome = _plan(path, data)
    assert outcome == _plan(path, data)
    assert not [each for each in outcome.findings if any(words in each.message for words in OUR_FAULTS)]
    if outcome.change is not None:
        assert outcome.change.before == data
        assert _plan(path, outcome.change.after).change is None
    return outcome


@MANY
@given(st.binary(max_size=400), st.sampled_from(["a.py", "a.ipynb"]))
def test_any_bytes(data: bytes, path: str) -> None:
    _holds(path, data)


@MANY
@given(st.text(max_size=200), st.sampled_from(["import torch\nx = torch.bfloat16\n", "model.half()\n"]))
def test_any_text_after_code(text: str, code: str) -> None:
    _holds("a.py", (code + text).encode("utf-8", "surrogatepass"))


@MANY
@given(PIECES, LINE_ENDS, ENCODINGS, st.integers(0, 3), st.booleans())
def test_any_mixture_of_statements(
    pieces: list[str], line_end: str, encoding: tuple[str, str], depth: int, ends: bool
) -> None:
    opening = "".join(f"{'    ' * level}if True:\n" for level in range(depth))
    body = "".join("".join(f"{'    ' * depth}{line}\n" for line in piece.splitlines()) for piece in pieces)
    text = encoding[0] + opening + body
    data = (text if ends else text.removesuffix("\n")).replace("\n", line_end).encode(encoding[1], "replace")
    outcome = _holds("a.py", data)
    if outcome.change is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(outcome.change.after)
        assert data.startswith(b"\xef\xbb\xbf") == outcome.change.after.startswith(b"\xef\xbb\xbf")
        if line_end != "\n":
            assert b"\n" not in outcome.change.after.replace(line_end.encode(), b"")


@MANY
@given(
    st.lists(st.tuples(PIECES, st.sampled_from(["code", "markdown", "raw"]), st.booleans()), min_size=1, max_size=4),
    st.sampled_from([None, 1, 2, "\t"]),
    st.booleans(),
    st.text(max_size=10),
)
def test_any_notebook(cells: list[tuple[list[str], str, bool]], indent, ascii_only: bool, note: str) -> None:
    made = []
    for pieces, kind, listed in cells:
        source = "\n".join([f"# {note!r}", *pieces])
        made.append({"cell_type": kind, "source": source.splitlines(keepends=True) if listed else source})
    notebook = {"cells": made, "metadata": {"note": note}, "nbformat": 4, "nbformat_minor": 5}
    data = json.dumps(notebook, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    outcome = _holds("a.ipynb", data)
    if outcome.change is None:
        return
    after = json.loads(outcome.change.after)
    assert after["metadata"] == notebook["metadata"]
    for before_cell, after_cell in zip(made, after["cells"], strict=True):
        if before_cell["cell_type"] != "code":
            assert after_cell == before_cell
        assert isinstance(after_cell["source"], list) == isinstance(before_cell["source"], list)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text("ab .é-", min_size=1, max_size=6).filter(lambda n: n.strip(" .")), PIECES, max_size=4))
def test_any_folder_is_fixed_once_and_restored(files: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        before = {f"{name}.py": "\n".join(pieces).encode() for name, pieces in files.items()}
        for name, data in before.items():
            (root / name).write_bytes(data)
        plan = plan_fixes(Site(DiskTree(root), gpu=TITAN_RTX))
        apply_to_disk(root, plan)
        assert plan_fixes(Site(DiskTree(root), gpu=TITAN_RTX)).changes == ()
        undo_on_disk(root)
        assert {name: (root / name).read_bytes() for name in before} == before


@MANY
@given(st.binary(max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6), st.binary(max_size=4))))
def test_splices_change_only_their_ranges_or_nothing(data: bytes, ranges: list[tuple[int, int, bytes]]) -> None:
    edits = [Edit(start, data[start : start + length], new, "") for start, length, new in ranges if start <= len(data)]
    try:
        after = splice(data, edits)
    except EditRefused:
        ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
        assert any(one.end > other.start for one, other in itertools.pairwise(ordered))
        return
    assert len(after) == len(data) + sum(len(edit.replacement) - len(edit.expected) for edit in edits)
    assert splice(data, []) == data


@MANY
@given(st.binary(max_size=60).map(lambda data: data.replace(b"x", b"\r\n")), st.integers(0, 60))
def test_lines_are_counted_as_the_parser_does(data: bytes, offset: int) -> None:
    text = data[:offset].decode("latin-1")
    assert line_of(data, offset) == text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    assert newline_of(data) in (b"\n", b"\r\n", b"\r")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@MANY
@given(JSON_VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_every_json_string_has_its_byte_range(value: object, indent, ascii_only: bool) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        parsed = read_json(data, strict=True)
    except Unparsable:
        return
    for string in (json_string(data, node) for node in _strings(parsed)):
        assert string is not None
        written = data[string.start - 1 : string.end + 1]
        assert json.loads(written.decode("utf-8")) == string.value
        encoded = string.value.encode("utf-8", "surrogatepass")
        for length in range(len(string.value) + 1):
            at = len(string.value[:length].encode("utf-8", "surrogatepass"))
            head = json.loads(b'"' + data[string.start : string.file_offset(at)] + b'"')
            assert head.encode("utf-8", "surrogatepass") == encoded[:at]


@MANY
@given(st.binary(max_size=40))
def test_what_json_refuses_is_refused(data: bytes) -> None:
    try:
        read_json(data, strict=True)
    except Unparsable as error:
        assert error.line >= 1
        return
    json.loads(data.decode("utf-8-sig"))


def _strings(node: Node):
    if isinstance(node, Scalar):
        yield from (node,) if node.style else ()
    for child in node.items if isinstance(node, Sequence) else ():
        yield from _strings(child)
    for pair in node.entries if isinstance(node, Mapping) else ():
        for child in pair:
            yield from _strings(child)
