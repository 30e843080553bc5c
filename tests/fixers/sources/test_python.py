"""Edits of Python source at byte positions."""

from __future__ import annotations

import ast
import json
import re

import pytest

from fixers.sources.notebook import masked
from fixers.sources.python import PythonSource, read_python, reads_python
from fixers.sources.splice import EditRefused, splice
from fixers.sources.unparsable import Unparsable


def _read(code: str) -> PythonSource:
    return read_python("a.py", code.encode())


def _edited(source: PythonSource, *edits) -> str:
    return splice(source.data, [edit for edit in edits if edit is not None]).decode()


REMOVED = [
    ("f(a, gone=1)", "f(a)"),
    ("f(a, gone=1, b=2)", "f(a, b=2)"),
    ("f(gone=1, b=2)", "f(b=2)"),
    ("f(gone=1)", "f()"),
    ("f(a, gone=1,)", "f(a,)"),
    ("f(\n    a,\n    gone=1,  # why\n    b=2,\n)", "f(\n    a,\n    b=2,\n)"),
    ("f(\r\n    gone=1,\r\n    b=2,\r\n)", "f(\r\n    b=2,\r\n)"),
    ("f(\n    a,  # one\n    gone=1)", None),
    ("f(a, # one\n  gone=1)", None),
    ("f((a), gone=1)", None),
    ("f(a, gone=(1))", "f(a)"),
]


@pytest.mark.parametrize(("code", "after"), REMOVED)
def test_an_argument_is_removed_with_its_comma_or_not_at_all(code: str, after: str | None) -> None:
    source = _read(code)
    call = source.names.of_type(ast.Call)[0]
    keyword = next(keyword for keyword in call.keywords if keyword.arg == "gone")
    edit = source.remove_argument(call, keyword, "")
    assert (None if edit is None else _edited(source, edit)) == after


APPENDED = [
    ("f()", "f(k=1)"),
    ("f(a)", "f(a, k=1)"),
    ("f(a,)", "f(a, k=1,)"),
    ("f((a))", "f((a), k=1)"),
    ("f((a), b=((2)))", "f((a), b=((2)), k=1)"),
    ("f(\n    (a  # one )\n    ),\n)", "f(\n    (a  # one )\n    ), k=1,\n)"),
    ("f(\n    a  # one (x)\n)", "f(\n    a, k=1  # one (x)\n)"),
    ("f((a) # )\n  # b)\n)", "f((a), k=1 # )\n  # b)\n)"),
    ("f(*a, **b)", "f(*a, **b, k=1)"),
    ("f(x for x in y)", "f((x for x in y), k=1)"),
]


@pytest.mark.parametrize(("code", "after"), APPENDED[:-1])
def test_an_argument_is_appended_after_the_last_one(code: str, after: str) -> None:
    source = _read(code)
    assert _edited(source, source.append_argument(source.names.of_type(ast.Call)[0], "k=1", "")) == after


INSERTED = [
    ("x\nHERE()\ny\n", "x\n+\nHERE()\ny\n", "x\nHERE()\n+\ny\n"),
    ("if x:\n\tHERE()", "if x:\n\t+\n\tHERE()", "if x:\n\tHERE()\n\t+\n"),
    ("if x:\r\n  HERE() # why\r\n", "if x:\r\n  +\r\n  HERE() # why\r\n", "if x:\r\n  HERE() # why\r\n  +\r\n"),
    ("x; HERE()\n", None, None),
    ("HERE(); x\n", "+\nHERE(); x\n", None),
    ("if x: HERE()\n", None, None),
    ("HERE(\n  1\n)\ny", "+\nHERE(\n  1\n)\ny", "HERE(\n  1\n)\n+\ny"),
    ("@d\ndef HERE(): pass\n", "+\n@d\ndef HERE(): pass\n", "@d\ndef HERE(): pass\n+\n"),
]


@pytest.mark.parametrize(("code", "before", "behind"), INSERTED)
def test_lines_are_inserted_before_and_after_a_statement(code: str, before: str | None, behind: str | None) -> None:
    source = _read(code)
    statement = next(s for s in ast.walk(source.tree) if isinstance(s, ast.stmt) and _is_here(source, s))
    first, last = source.insert_before(statement, ("+",), ""), source.insert_after(statement, ("+",), "")
    assert (None if first is None else _edited(source, first)) == before
    assert (None if last is None else _edited(source, last)) == behind


def _is_here(source: PythonSource, statement: ast.stmt) -> bool:
    return source.segment(statement).startswith(("HERE", "def HERE"))


QUOTES = [("f(x)", '"'), ("f'{x}'", '"'), ('f"{x}"', "'"), ("rf'''{x}'''", '"'), ("f\"{f'{x}'}\"", None)]


@pytest.mark.parametrize(("code", "quote"), QUOTES)
def test_the_quote_differs_from_those_of_enclosing_f_strings(code: str, quote: str | None) -> None:
    source = _read(code)
    name = next(name for name in source.names.of_type(ast.Name) if name.id == "x")
    assert source.quote_for(name) == quote


MENTIONS = [
    ("# word\n", False),
    ('"""A word of prose."""\n', False),
    ("word\n", True),
    ("a.word\n", True),
    ("f(word=1)\n", True),
    ("f(a='word')\n", True),
    ("f(a,  # word\n  b)\n", False),
    ("import word\n", True),
    ("from word import x\n", True),
    ("def f(word): pass\n", True),
    ("@word\ndef f(): pass\n", True),
    ("def f():\n    '''Says word twice.'''\n    return 1  # word\n", False),
    ("x = f'{word}'\n", True),
    ("if x:\n    pass\nelif word:\n    pass\n", True),
    ("[a for b in word]\n", True),
]


@pytest.mark.parametrize(("code", "mentioned"), MENTIONS)
def test_prose_is_distinguished_from_code(code: str, mentioned: bool) -> None:
    assert _read(code).mentions(re.compile(rb"word")) is mentioned


def test_an_edit_is_refused_if_the_bytes_differ_from_those_it_expects() -> None:
    with pytest.raises(EditRefused, match="expected 'b'"):
        _read("a = 1\n").replace(0, "b", "c", "why")


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"a = 1\nb = (\n", 2, "not Python"),
        (b"a = 1\n\xff\n", 2, "not UTF-8"),
        (b"# coding: no-such\n", 1, "not Python"),
        (b"# coding: ascii\nx = '\xe9'\n", 1, "not valid ascii"),
        (b"# coding: utf-7\nx = '+AGE-'\n", 1, "would change when decoded"),
        (b"x = 1\x00\n", 1, "not Python"),
        (b"(" * 5000 + b")" * 5000, 1, "not Python"),
        (b"a = 1\nx = " + b" + ".join([b"a"] * 500) + b"\n", 2, "too deep"),
        (b"a = 1\nx = a" + b".b(1)" * 300 + b"\n", 2, "too deep"),
        (b"a = 1\nif a:\n  b\n" + b"elif a:\n  b\n" * 400, 400, "too deep"),
    ],
)
def test_unparsable_python_is_reported_with_its_line(data: bytes, line: int, words: str) -> None:
    with pytest.raises(Unparsable) as caught:
        read_python("a.py", data)
    assert (caught.value.line, words in caught.value.message) == (line, True), caught.value.message


@pytest.mark.parametrize("path", ["a.py", "b/a.pyw", "a.ipynb"])
def test_python_files_are_recognised_by_name(path: str) -> None:
    assert reads_python(path)
    assert not reads_python(path + ".txt")


MASKED = [
    ("%matplotlib inline\nx\n", "0" + " " * 17 + "\nx\n"),
    ("  !ls\n", "0    \n"),
    ("x = !ls -l\n", "0         \n"),
    ("model.layer??\n", "0            \n"),
    ("?model\r\ny", "0     \r\ny"),
    ("!a \\\n  b \\\n  c\nd", "0   \n     \n   \nd"),
    ("%%bash\nls\n", "      \n  \n"),
    ("\n  !a \\\n   b\nd", "\n0     \n    \nd"),
    ("%%time\nx\n", "0     \nx\n"),
    ("x = a % b\n", "x = a % b\n"),
    ("!é\n", "0  \n"),
]


@pytest.mark.parametrize(("cell", "text"), MASKED)
def test_ipython_lines_become_empty_expressions_of_the_same_length(cell: str, text: str) -> None:
    assert masked(cell) == text
    assert len(masked(cell).encode()) == len(cell.encode())


def _notebook(*sources: object, **options) -> bytes:
    cells = [{"cell_type": "code", "source": source} for source in sources]
    return json.dumps({"cells": cells}, **options).encode()


INSERTED_IN_CELLS = [
    (["a\n", "HERE()\n", "b"], ["a\n", "+é\n", "HERE()\n", "b"]),
    (["HERE()"], ["+é\n", "HERE()"]),
    ("a\nHERE()\n", "a\n+é\nHERE()\n"),
    (["a\nHERE()\n"], ["a\n+é\nHERE()\n"]),
]


@pytest.mark.parametrize("options", [{}, {"indent": 1}, {"ensure_ascii": False, "indent": 2}])
@pytest.mark.parametrize(("before", "after"), INSERTED_IN_CELLS)
def test_lines_inserted_into_a_cell_are_separate_strings(before: object, after: object, options) -> None:
    data = _notebook(["x = 'é'\n"], before, ["z"], **options)
    source = read_python("a.ipynb", data)
    statement = next(s for s in source.tree.body if _is_here(source, s))
    edit = source.insert_before(statement, ("+é",), "")
    assert edit is not None
    changed = splice(data, [edit])
    assert [cell["source"] for cell in json.loads(changed)["cells"]] == [["x = 'é'\n"], after, ["z"]]
    if options:
        assert changed == _notebook(["x = 'é'\n"], after, ["z"], **options)


def test_a_line_inserted_after_the_last_line_of_a_cell_stays_in_that_cell() -> None:
    data = _notebook(["a\n", "HERE()"], ["%%bash\n", "ls"])
    source = read_python("a.ipynb", data)
    edit = source.insert_after(source.tree.body[1], ("+",), "")
    assert edit is not None
    assert [cell["source"] for cell in json.loads(splice(data, [edit]))["cells"]] == [
        ["a\n", "HERE()\n+"],
        ["%%bash\n", "ls"],
    ]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", 1),
        (b"[]", 1),
        (b'{"cells": 1}', 1),
        (b'{"cells": []} x', 1),
        (b'{\n"cells": [\n}', 3),
        (b'{"a": 1,\n"a": 2}', 2),
        (b"\xff", 1),
        (b"[" * 300 + b"]" * 300, 1),
    ],
)
def test_an_invalid_notebook_is_reported_with_its_line(data: bytes, line: int) -> None:
    with pytest.raises(Unparsable) as caught:
        read_python("a.ipynb", data)
    assert caught.value.line == line
