"""Every case in the lists of faults (FI), bad input (BI) and security (SE) has a test whose name contains its id.

An id in a test's name, as pytest prints it, has one of these forms: `test_FI_07_a_bit_that_turned`,
`test_FI_56_FI_57_a_file` for two, `test_a_bad_config[BI-05 unknown key]` for one row of a table.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
COUNTS = {"FI": 62, "BI": 60, "SE": 24}
CASES = tuple(f"{kind}-{number:02}" for kind, count in COUNTS.items() for number in range(1, count + 1))
ABSENT: dict[str, str] = {}
"""Cases that deliberately have no test, and why."""
LACKING = {
    "BI-45": "a card too small for the model is found by the proof's own steps; nothing estimates it beforehand",
    "BI-57": "the version of transformers is no input of a run, so a resume after an upgrade is not refused; and a "
    "whole checkpoint of another model that somebody copied into a run fails when it is loaded, not before",
}
"""Parts of a case that no test covers, because they do not apply."""
IN_A_NAME = re.compile(r"(?<![a-zA-Z])(FI|BI|SE)_(\d\d)(?!\d)")
IN_A_ROW = re.compile(r"(FI|BI|SE)-(\d\d)\b")


def is_test(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")


def ids_of(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the ids in the test's name and at the beginning of its rows."""
    yield from (f"{kind}-{number}" for kind, number in IN_A_NAME.findall(test.name))
    for decorator in test.decorator_list:
        if not ast.unparse(decorator).startswith("pytest.mark.parametrize"):
            continue
        for node in ast.walk(decorator):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and (row := IN_A_ROW.match(node.value)):
                yield f"{row[1]}-{row[2]}"


@cache
def carried() -> dict[str, tuple[str, ...]]:
    """Return every id in the name of a test, with the files of those tests."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if TESTS / "fixers" / "cases" in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
            if is_test(node):
                for case in ids_of(node):
                    found.setdefault(case, []).append(f"{path.relative_to(TESTS)}::{node.name}")
    return {case: tuple(places) for case, places in found.items()}


@pytest.mark.parametrize("case", CASES)
def test_the_case_has_a_test_or_a_reason(case: str) -> None:
    assert (case in carried()) != (case in ABSENT), f"{case}: {carried().get(case)} {ABSENT.get(case)}"


def test_no_test_carries_an_id_that_the_list_does_not_have() -> None:
    unknown = {case: places for case, places in carried().items() if case not in CASES}
    assert unknown == {}
    assert set(ABSENT) <= set(CASES)
    assert set(LACKING) <= set(carried())


@pytest.mark.parametrize(
    ("source", "cases"),
    [
        ("def test_FI_07_a_bit(): ...", ["FI-07"]),
        ("def test_FI_56_FI_57_a_file(): ...", ["FI-56", "FI-57"]),
        ("def test_FI_123_a_bit(): ...", []),
        ("@pytest.mark.parametrize('case', ['BI-05 unknown key', 'as BI-06'])\ndef test_a(case): ...", ["BI-05"]),
        ("@other('BI-05')\ndef test_a(case): ...", []),
    ],
)
def test_an_id_is_read_from_a_name_or_a_row(source: str, cases: list[str]) -> None:
    [test] = ast.parse(source).body
    assert isinstance(test, ast.FunctionDef)
    assert list(ids_of(test)) == cases
