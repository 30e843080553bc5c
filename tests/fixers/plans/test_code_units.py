"""The units of a module: each has only its own text, even if many of them stand on one line."""

from __future__ import annotations

import ast

import pytest

from fixers.plans.code_units import units_of

ON_ONE_LINE = {
    "statements of a class": b"class A: " + b"a = 1; " * 500,
    "statements of the module": b"a = f(1); " * 500,
    "assignments": b"".join(b"name%d = 1; " % number for number in range(500)),
    "methods in one block": b"class A:\n    x = 1; " + b"y: int = 2; " * 500 + b"\n    def f(self): return 1\n",
}


@pytest.mark.parametrize("text", ON_ONE_LINE.values(), ids=ON_ONE_LINE)
def test_SE_the_texts_of_all_units_are_no_longer_than_the_module(text: bytes) -> None:
    units = units_of("tool.py", ast.parse(text), text, is_entry=True)
    assert sum(len(unit.text) for unit in units) <= len(text)


def test_a_unit_has_the_text_of_its_decorators_and_no_text_of_its_neighbours() -> None:
    text = b"x = 1; y = '\xc3\xa4'; z = 3\n\n@decorate(\n    1)\n@again\ndef f(a):\n    return a  # end\n"
    texts = {unit.name: unit.text for unit in units_of("tool.py", ast.parse(text), text, is_entry=False)}
    assert texts["y"] == b"y = '\xc3\xa4'"
    assert texts["f"] == b"@decorate(\n    1)\n@again\ndef f(a):\n    return a"
