"""What is remembered of files does not keep their contents in memory."""

from __future__ import annotations

import ast
import json
import tracemalloc
from pathlib import Path

import pytest

from fixers.plans.reached import Reach
from fixers.sources.by_content import by_content
from fixers.sources.python import TREES
from fixers.sources.python_text import map_python
from tests.contracts.project_modules import ROOT

STATEMENTS = {"_words"}
"""Cached functions whose argument is a statement and not a file."""


def kept_bytes() -> int:
    return tracemalloc.get_traced_memory()[0]


def test_a_content_is_judged_once_and_not_kept() -> None:
    calls: list[int] = []

    @by_content
    def is_long(content: bytes) -> bool:
        calls.append(len(content))
        return len(content) > 10

    assert [is_long(text) for text in (b"short", b"long enough", b"short")] == [False, True, False]
    assert calls == [5, 11]
    tracemalloc.start()
    try:
        for number in range(20):
            is_long(b"%d" % number * 500_000)
        assert kept_bytes() < 500_000
    finally:
        tracemalloc.stop()


def test_SE_parsed_notebooks_do_not_stay_in_memory() -> None:
    def notebook(number: int) -> bytes:
        source = [f"x = {number}\n"] * 1_000
        return json.dumps({"cells": [{"cell_type": "code", "source": source}], "nbformat": 4}).encode()

    tracemalloc.start()
    try:
        map_python("first.ipynb", notebook(0))
        one = kept_bytes()
        for number in range(1, 8):
            map_python("next.ipynb", notebook(number))
        assert kept_bytes() < 2 * one
    finally:
        tracemalloc.stop()


def test_SE_the_units_of_a_program_keep_no_syntax_trees(tmp_path: Path) -> None:
    """Twenty modules of 190 KB took 1.4 GB."""
    (tmp_path / "tool.py").write_text(f"def load():\n    return {'a, ' * 50_000}\n")
    reach = Reach(lambda path: (tmp_path / path).read_bytes(), frozenset)
    tracemalloc.start()
    try:
        [load] = (each for each in reach.units("tool.py", is_entry=False) if each.name == "load")
        TREES.clear()
        assert load.uses >= {"a"} and kept_bytes() < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("package", ["fixers", "pipeline", "remote/project"])
def test_caches_of_files_have_few_entries(package: str) -> None:
    """A cache keyed by content keeps the content: 4,096 files of 2 MiB are 8 GiB."""
    large: list[str] = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef) and node.name not in STATEMENTS:
                takes_bytes = any(ast.unparse(one.annotation or ast.Constant("")) == "bytes" for one in node.args.args)
                cached = [text for one in node.decorator_list if "cache" in (text := ast.unparse(one))]
                if takes_bytes and any(int(text.partition("maxsize=")[2].strip(")") or 128) > 16 for text in cached):
                    large.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert large == []
