"""Text that a project or a user wrote becomes a number only by `whole_number`, which has a limit."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from remote.protocol.text import whole_number
from tests.contracts.project_modules import modules

TESTS = {"isdigit", "isnumeric", "isdecimal"}
BOUNDED = {
    "remote.protocol.text.whole_number": "the limit itself",
    "remote.protocol.lines._apply_control": "a parameter of at most 32 ASCII digits",
}
"""Functions that convert text after such a test, with the reason why `int` accepts the text."""


def conversions(tree: ast.AST) -> Iterator[str]:
    """Yield each function that converts text to a number after a test that accepts more than `int` does."""
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
            is_tested = any(isinstance(call, ast.Attribute) and call.attr in TESTS for call in calls)
            if is_tested and any(isinstance(call, ast.Name) and call.id in ("int", "float") for call in calls):
                yield function.name


def test_SE_no_text_is_converted_to_a_number_after_isdigit() -> None:
    # The payload reads numbers of its own host: /proc, and the output of the driver's tools.
    laptop = [one for one in modules() if not one.name.startswith("remote.payload.")]
    found = {f"{one.name}.{function}" for one in laptop for function in conversions(one.tree)}
    assert found == set(BOUNDED), "use whole_number: int rejects a superscript two and more than 4,300 digits"


@pytest.mark.parametrize("text", ["\xb2", "\u0663", "9" * 5000, "", "-1", " 1"])
def test_SE_whole_number_returns_none_for_text_that_is_no_number_of_nine_digits(text: str) -> None:
    assert whole_number(text) is None


@pytest.mark.parametrize(
    "code",
    [
        "def port(text):\n    return int(text) if text.isascii() and text.isdigit() else None\n",
        "def numbers(names):\n    return [int(name) for name in names if name.isdecimal()]\n",
    ],
)
def test_SE_such_a_conversion_is_found(code: str) -> None:
    assert len(list(conversions(ast.parse(code)))) == 1
