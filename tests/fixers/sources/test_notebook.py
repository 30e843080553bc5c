"""A notebook's code as one module: its cells, the positions of their characters, and inserting lines."""

import json

import pytest

from fixers.sources.notebook import NotebookMap, code_cells
from fixers.sources.unparsable import Unparsable


def cell(source, kind="code"):
    return {"cell_type": kind, "source": source}


def notebook(*cells, **how):
    return json.dumps({"cells": cells}, **how).encode()


def test_code_cells_are_read_whether_their_source_is_a_list_or_a_string():
    data = notebook(cell("a = 1\n"), cell("# words", "markdown"), cell(["b\n", "c"]), cell([]), {"x": 1}, cell(None))
    assert [(each.index, each.source, each.listed) for each in code_cells(data)] == [
        (0, "a = 1\n", False),
        (2, "b\nc", True),
        (3, "", True),
        (5, "", False),
    ]


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b'{"cells": [}', 1, "not JSON: expected a JSON value"),
        (b'{\n"cells": 1}', 1, "a notebook without cells (nbformat below 4 is not read)"),
        (b"[]", 1, "a notebook without cells (nbformat below 4 is not read)"),
        (b'{\n\n"cells" []}', 3, "not JSON: expected a quoted key and a colon"),
    ],
)
def test_an_invalid_notebook_is_rejected_with_its_line(data, line, words):
    with pytest.raises(Unparsable) as refusal:
        code_cells(data)
    assert (refusal.value.message, refusal.value.line) == (words, line)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_every_character_of_the_module_has_its_position_in_the_notebook(ascii_only):
    sources = ['s = "é\\t"\n', "x = '😀'  # \\ü\n", "y"]
    data = notebook(cell(sources[:2]), cell(sources[2]), ensure_ascii=ascii_only)
    offsets = NotebookMap(data, code_cells(data))
    module = "".join(sources[:2]) + "\n" + sources[2]
    assert offsets.inserted_newlines == {len("".join(sources[:2]).encode()), len(module.encode())}
    for source in sources:
        begin = len(module[: module.index(source)].encode())
        for at, character in enumerate(source):
            start = begin + len(source[:at].encode())
            first, last = offsets.file_range(start, start + len(character.encode()))
            assert json.loads(b'"' + data[first:last] + b'"') == character


def test_an_edit_over_two_strings_or_before_all_code_is_refused():
    data = notebook(cell(["ab", "cd"]))
    offsets = NotebookMap(data, code_cells(data))
    assert data[slice(*offsets.file_range(0, 2))] == b"ab"
    with pytest.raises(Unparsable, match="spans several"):
        offsets.file_range(1, 3)
    with pytest.raises(Unparsable, match="no code at that position"):
        NotebookMap(data, ()).file_range(0, 0)


@pytest.mark.parametrize(
    ("source", "at", "text", "after"),
    [
        (["a\n", "b\n"], 2, "x\ny\n", ["a\n", "x\n", "y\n", "b\n"]),
        (["a\n", "b\n"], 0, "x\n", ["x\n", "a\n", "b\n"]),
        (["a\n", "b\n"], 2, 'é"x', ["a\n", 'é"xb\n']),
        (["a\n", "b\n"], 1, "x\n", ["ax\n\n", "b\n"]),
        ("a\nb\n", 2, "x\n", "a\nx\nb\n"),
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_inserted_lines_become_separate_strings_with_the_layout_of_their_neighbours(source, at, text, after, indent):
    data = notebook(cell(source), indent=indent)
    offsets = NotebookMap(data, code_cells(data))
    start, _ = offsets.file_range(at, at)
    written = data[:start] + offsets.encode(text, at) + data[start:]
    assert written == notebook(cell(after), indent=indent)


def test_lines_before_a_single_string_have_its_layout():
    data = notebook(cell(["a\n"]), indent=1)
    offsets = NotebookMap(data, code_cells(data))
    start, _ = offsets.file_range(0, 0)
    written = data[:start] + offsets.encode("x\ny\n", 0) + data[start:]
    assert written == notebook(cell(["x\n", "y\n", "a\n"]), indent=1)


def test_an_edited_notebook_keeps_its_unicode_or_ascii_encoding():
    for ascii_only, wanted in ((True, b"\\u00e9"), (False, "é".encode())):
        data = notebook(cell(["a = 'ü'\n"]), ensure_ascii=ascii_only)
        assert NotebookMap(data, code_cells(data)).encode("é", 1) == wanted
