"""exhaustive.txt and sweeps.txt list tests that exist, and `make test` still uses every package of the product."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems
from tests.contracts.project_modules import ROOT, graph, module_named, modules
from tests.exhaustive import TABLES, Sweep, is_listed, missing_rows, parse_sweeps, read_sweeps

TABLE_OF = {marker: read_sweeps(marker) for marker in TABLES}
SWEEPS = [sweep for sweeps in TABLE_OF.values() for sweep in sweeps]
THROUGH_THE_AGENT = {"remote.payload.survey": "tests/remote/jobs/test_survey.py"}
"""Packages that no test imports because they run on the host, each with a test that calls them as the laptop does."""
FILES = sorted(path for path in (ROOT / "tests").rglob("test_*.py") if "cases" not in path.parts)


@cache
def names_and_imports(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the tests of a file, and the modules that it imports, directly or through other test modules."""
    names, imports = set(), set()
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
    return frozenset(names), frozenset(imports)


def names_in(path: Path) -> frozenset[str]:
    return names_and_imports(path)[0]


def in_make_test(path: Path) -> bool:
    """Return True if some test of the file has a row that neither table lists."""
    file = path.relative_to(ROOT).as_posix()
    kept = {row for sweep in SWEEPS for row in sweep.keeps} | {""}
    return any(
        not any(is_listed(sweeps, file, test, row) for sweeps in TABLE_OF.values())
        for test in names_in(path)
        for row in kept
    )


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: f"{Path(sweep.file).name}-{sweep.test}")
def test_a_line_names_a_test_that_exists(sweep: Sweep) -> None:
    assert (ROOT / sweep.file).is_file()
    assert not sweep.test or sweep.test in names_in(ROOT / sweep.file)


@pytest.mark.parametrize("marker", TABLES)
def test_no_test_has_two_lines(marker: str) -> None:
    whole = {sweep.file for sweep in SWEEPS if not sweep.test}
    named = [(sweep.file, sweep.test) for sweep in TABLE_OF[marker]]
    assert len(named) == len(set(named))
    assert [sweep for sweep in TABLE_OF[marker] if sweep.test and sweep.file in whole] == []


def test_each_test_of_the_sweeps_has_rows_in_make_test() -> None:
    left = {(sweep.file, sweep.test): sweep.keeps for sweep in TABLE_OF["exhaustive"]}
    none = [
        f"{sweep.file}::{sweep.test}"
        for sweep in TABLE_OF["sweep"]
        if sweep.keeps and not sweep.keeps & left.get((sweep.file, sweep.test), sweep.keeps)
    ]
    assert none == [], "a test of which `make test` runs no row belongs to tests/exhaustive.txt"


def test_nothing_else_marks_a_test_that_make_test_leaves_out() -> None:
    markers = ["mark" + f".{marker}" for marker in TABLES]
    files = {file.relative_to(ROOT).as_posix(): read(file) for file in (ROOT / "tests").rglob("*.py")}
    users = [file for file, text in files.items() if any(marker in text for marker in markers)]
    assert users == [], "list the test in tests/exhaustive.txt, unless it takes under a second"


def read(file: Path) -> str:
    return file.read_text("utf-8", "replace")


def test_make_test_uses_every_package_of_the_product() -> None:
    """A test imports the package directly or indirectly, or uses it through the agent."""
    kept = [path for path in FILES if in_make_test(path)]
    used = {named for path in kept for name in names_and_imports(path)[1] if (named := module_named(name))}
    used |= {imported for module in used for imported in graph()[module]}
    packages = {module.name for module in modules() if module.path.name == "__init__.py"}
    unused = {package for package in packages if not any(f"{one}.".startswith(f"{package}.") for one in used)}
    assert unused == set(THROUGH_THE_AGENT)
    assert set(THROUGH_THE_AGENT.values()) <= {path.relative_to(ROOT).as_posix() for path in kept}


@pytest.mark.parametrize(
    ("text", "row", "exhaustive"),
    [
        ("tests/a/test_b.py", "", True),
        ("tests/a/test_b.py::test_c", "one", True),
        ("tests/a/test_b.py::test_d", "one", False),
        ("tests/a/test_e.py", "one", False),
        ("tests/a/test_b.py::test_c keeps one, two words", "one", False),
        ("tests/a/test_b.py::test_c keeps one, two words", "two words", False),
        ("tests/a/test_b.py::test_c keeps one, two words", "two", True),
        ("# tests/a/test_b.py\n\n", "", False),
    ],
)
def test_a_line_covers_a_file_a_test_or_all_rows_but_some(text: str, row: str, exhaustive: bool) -> None:
    assert is_listed(parse_sweeps(text), "tests/a/test_b.py", "test_c", row) is exhaustive


def test_a_kept_row_that_does_not_exist_is_named() -> None:
    sweeps = parse_sweeps("tests/a/test_b.py::test_c keeps one, other")
    assert missing_rows(sweeps, {("tests/a/test_b.py", "test_c"): {"one", "two"}}) == (
        "tests/a/test_b.py::test_c has no row 'other'",
    )
    assert missing_rows(sweeps, {("tests/a/test_b.py", "test_d"): {""}}) == ()


@pytest.mark.parametrize("line", ["tests/a/b.txt", "tests/a/b.py keeps one", "tests/a/b.py::test_c keep one"])
def test_a_line_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_sweeps(line)


@pytest.mark.parametrize(
    ("arguments", "only_failed", "refused"),
    [([], False, True), (["tests"], False, True), (["tests/a.py::test_b[c]"], False, False), ([], True, False)],
)
def test_a_kept_row_may_be_missing_only_if_a_part_of_the_rows_is_collected(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], only_failed: bool, refused: bool
) -> None:
    monkeypatch.setattr("tests.conftest.mark_listed", lambda items: ("a.py::test_b has no row 'd'",))
    config: Any = SimpleNamespace(args=arguments, getoption={"lf": only_failed}.get)
    if refused:
        with pytest.raises(pytest.UsageError, match="no row 'd'"):
            pytest_collection_modifyitems(config, [])
    else:
        pytest_collection_modifyitems(config, [])
