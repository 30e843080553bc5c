"""tests/allowed_skips.txt lists exactly the reasons for which a test may be skipped."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import skip_reasons

ROOT = Path(__file__).resolve().parents[2]
LISTED = (*skip_reasons("permitted"), *skip_reasons("installed"))


def beginning(node: ast.expr) -> str:
    """Return the constant text with which a string begins."""
    first = node.values[0] if isinstance(node, ast.JoinedStr) else node
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def reasons_of(tree: ast.AST) -> Iterator[str]:
    """Yield the reasons passed to `pytest.skip` and `skipif`, and those that `why_no_` functions return."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("why_no_"):
            yield from filter(None, map(beginning, returned_by(node)))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".skip", ".skipif")):
            given = [word.value for word in node.keywords if word.arg == "reason"] or node.args[:1]
            # The reason is a variable with the result of a `why_no_` function.
            yield from (beginning(one) for one in given or [ast.Constant("")] if not isinstance(one, ast.Name))
        elif isinstance(node, ast.Attribute) and node.attr == "importorskip":
            yield "could not import"


def returned_by(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield the expressions that a function returns, including both of a conditional expression."""
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield from (node.value.body, node.value.orelse) if isinstance(node.value, ast.IfExp) else (node.value,)


@cache
def every_reason() -> dict[str, str]:
    """Map each reason that the tests give to one of their files."""
    files = [path for path in (ROOT / "tests").rglob("*.py") if "cases" not in path.parts]
    sources = {str(path): path.read_bytes() for path in files}
    # To parse the others takes two seconds.
    likely = {path: source for path, source in sources.items() if b"skip" in source or b"why_no_" in source}
    return {reason: path for path, source in likely.items() for reason in reasons_of(ast.parse(source, path))}


def test_a_skip_is_given_a_reason_of_the_list() -> None:
    assert {reason: path for reason, path in every_reason().items() if not reason.startswith(LISTED)} == {}


def test_every_reason_of_the_list_is_given_by_a_test() -> None:
    given = tuple(every_reason())
    assert [listed for listed in LISTED if not any(reason.startswith(listed) for reason in given)] == []


def test_no_reason_is_both_permitted_and_refused() -> None:
    assert [one for one in skip_reasons("installed") if one.startswith(skip_reasons("permitted"))] == []


@pytest.mark.parametrize(
    ("source", "reasons"),
    [
        ("pytest.skip('no cat')", ["no cat"]),
        ("pytest.skip(f'no {cat}')", ["no "]),
        ("pytest.skip()", [""]),
        ("pytest.skip(reason)", []),
        ("mark = pytest.mark.skipif(True, reason='no dog')", ["no dog"]),
        ("def why_no_cat():\n    'A cat.'\n    return '' if cat else 'no cat'", ["no cat"]),
        ("torch = pytest.importorskip('torch')", ["could not import"]),
    ],
)
def test_the_reasons_of_a_file_are_found(source: str, reasons: list[str]) -> None:
    assert list(reasons_of(ast.parse(source))) == reasons


SKIPPED = {
    "in_a_test": "def test_one(): pytest.skip('no strace on this machine')",
    "by_a_mark": "@pytest.mark.skipif(True, reason='no git on this machine')\ndef test_one(): ...",
    "a_whole_file": "pytest.skip('no strace on this machine', allow_module_level=True)",
    "permitted": "def test_one(): pytest.skip('mounting needs root')",
}


@pytest.mark.parametrize(("ci", "failed"), [("true", {"in_a_test", "by_a_mark", "a_whole_file"}), ("", set())])
def test_in_ci_a_skip_for_what_the_setup_installs_fails(tmp_path: Path, ci: str, failed: set[str]) -> None:
    for name, code in SKIPPED.items():
        (tmp_path / f"test_{name}.py").write_text(f"import pytest\n{code}\n")
    argv = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    # In the usual base folder, pytest would remove those of earlier runs, which takes up to a minute.
    argv += ["--basetemp", str(tmp_path / "base")]
    done = subprocess.run(
        [*argv, "--continue-on-collection-errors", "--rootdir", str(tmp_path), "-c", os.devnull, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(re.findall(r"^(?:FAILED|ERROR) \S*test_(\w+)\.py", done.stdout, re.MULTILINE)) == failed, done.stdout
    assert done.stdout.count("must not be skipped for this reason") >= len(failed)
    assert (done.returncode != 0) is bool(failed)
