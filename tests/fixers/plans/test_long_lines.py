"""Long lines of notebooks are not searched with patterns, and their cells not planned."""

from __future__ import annotations

import json
import time

import pytest

from fixers.frame.modules import OPTIMIZES, TRAINS, read_module
from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from fixers.registry import source_fixers
from fixers.sources.lines import LONGEST_LINE_BYTES, strings_of_notebook
from fixers.sources.python_text import map_python
from fixers.sources.source import Source
from tests.fixers.casebook import TITAN_RTX

LONG = "Trainer" * 20_000
BF16 = "import torch\nmodel.to(torch.bfloat16)\n"


def notebook(*cells: str, output: str = "") -> bytes:
    rows = [
        {"cell_type": "code", "source": text.splitlines(keepends=True), "outputs": [{"text": output}]} for text in cells
    ]
    return json.dumps({"cells": rows, "nbformat": 4}, indent=1).encode()


def test_SE_a_cell_with_a_very_long_line_is_named_and_not_read() -> None:
    data = notebook("x = 1\n", f"y = 2\n{LONG}\n", "z = 3\n")
    mapped = map_python("a.ipynb", data)
    assert b"Trainer" not in mapped.text and b"x = 1" in mapped.text and b"z = 3" in mapped.text
    assert max(map(len, mapped.text.split(b"\n"))) < 100
    (unread,) = mapped.unread
    assert "cell 1 is not Python: a line of 140001 bytes is too long" in unread.message or "140000" in unread.message
    assert LONG[:20].encode() in data.split(b"\n")[unread.line - 1]


def test_the_other_cells_of_such_a_notebook_keep_their_positions() -> None:
    plain, long = (plan_file("a.ipynb", data, list(source_fixers()), Target(TITAN_RTX)) for data in _both())
    assert plain.change is not None and long.change is not None
    assert long.change.after.replace(LONG.encode(), b"pass") == plain.change.after
    assert "too long" in long.findings[0].message


def _both() -> tuple[bytes, bytes]:
    return notebook("pass", BF16), notebook(LONG, BF16)


@pytest.mark.parametrize(
    "data",
    [
        notebook(LONG * 5, "trainer = Trainer(bf16=True)\n"),
        notebook("trainer = Trainer(bf16=True)\n", output=LONG * 5),
        b'{"cells": [' + LONG.encode() * 5,
        b'"' + b'\\"Trainer' * 90_000,
    ],
    ids=["in a cell", "in an output", "not JSON", "an open string"],
)
def test_SE_a_notebook_with_long_lines_takes_little_time(data: bytes) -> None:
    began = time.process_time()
    read_module("a.ipynb", data)
    plan_file("a.ipynb", data, list(source_fixers()), Target(TITAN_RTX))
    assert time.process_time() - began < 5


@pytest.mark.parametrize("pattern", [TRAINS, OPTIMIZES], ids=["trains", "optimizes"])
def test_SE_a_long_name_of_trainers_is_searched_in_linear_time(pattern: object) -> None:
    began = time.process_time()
    assert not pattern.is_in(LONG.encode() * 5)  # type: ignore[attr-defined]
    assert time.process_time() - began < 1
    for text in (b"MyTrainer2(", b"x.Trainer(", b"  Trainer(args)"):
        assert pattern.is_in(text)  # type: ignore[attr-defined]
    assert not pattern.is_in(b"Trainer.x (Trainer)")  # type: ignore[attr-defined]


def test_only_strings_that_are_no_pictures_are_searched() -> None:
    picture = "QUJD" * LONGEST_LINE_BYTES
    small, large = notebook('print("a")\n'), notebook('print("a")\n', output=picture)
    assert strings_of_notebook(small) == small
    lines = strings_of_notebook(large).split(b"\n")
    assert rb'"print(\"a\")\n"' in lines and not any(b"QUJD" in line for line in lines)
    whole = json.dumps({"cells": [{"cell_type": "code", "source": "x = 1\n" * 9000}]}).encode()
    assert b"x = 1" in strings_of_notebook(whole).split(b"\n")
    assert Source("a.ipynb", large).searched == strings_of_notebook(large)
    assert Source("a.py", large).searched == large
