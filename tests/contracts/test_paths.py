"""Paths are expanded, resolved and looked up only by functions that accept any path of a project."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.contracts.project_modules import Module, modules

OWN = "remote.project.paths"
RAISING = {"expanduser", "home", "resolve"}
EXISTING = {
    "pipeline.config.find": "the working folder and the folders above it",
    "pipeline.config.shipped": "halfstep's own folder",
    "pipeline.export.bundle": "halfstep's own folder",
}
"""Modules that call a method of `Path` for a folder that exists, or for what the user typed."""


def calls(tree: ast.AST) -> Iterator[str]:
    """Yield the calls of methods of `Path` that raise RuntimeError for a user who does not exist or a circular link."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in RAISING:
            is_path = node.func.attr == "home" or not [*node.args]
            if is_path and ast.unparse(node.func.value) != "os.path":
                yield f"{node.lineno}: {ast.unparse(node)}"


def laptop() -> list[Module]:
    return [one for one in modules() if not one.name.startswith("remote.payload.")]


def test_SE_paths_are_expanded_and_resolved_by_functions_that_do_not_fail() -> None:
    found = {one.name: list(calls(one.tree)) for one in laptop() if any(calls(one.tree))}
    found = {name: where for name, where in found.items() if name not in EXISTING}
    assert found == {}, f"use expanded() and resolved() of {OWN}"


def test_SE_the_listed_modules_still_call_these_methods() -> None:
    assert {one.name for one in laptop() if any(calls(one.tree))} >= set(EXISTING)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("Path(text).expanduser()", 1),
        ("(root / named).resolve(strict=True)", 1),
        ("Path.home()", 1),
        ("os.path.expanduser(text)", 0),
        ("consumers.resolve(value, default)", 0),
    ],
)
def test_SE_such_a_call_is_found(code: str, count: int) -> None:
    assert len(list(calls(ast.parse(code)))) == count


LOOKED_UP = {"exists", "is_dir", "is_file"}
OF_PROJECTS = ("pipeline.config.", "pipeline.runs.", "pipeline.verbs.", "pipeline.messages.", "remote.project.")


def lookups(tree: ast.AST) -> Iterator[str]:
    """Yield the calls of methods of `Path` that raise OSError for long names and closed folders."""
    for node in ast.walk(tree):
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args
        if called and node.func.attr in LOOKED_UP and ast.unparse(node.func.value) not in ("os.path", "entry"):
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_SE_paths_of_a_project_are_looked_up_by_functions_that_do_not_fail() -> None:
    found = {one.name: list(lookups(one.tree)) for one in laptop() if one.name.startswith(OF_PROJECTS)}
    own = {"pipeline.config.shipped"}  # halfstep's own folder
    assert {name for name, where in found.items() if where} == own, f"use exists(), is_folder() and is_file() of {OWN}"


@pytest.mark.parametrize(("code", "count"), [("(root / name).is_dir()", 1), ("exists(path)", 0)])
def test_SE_such_a_lookup_is_found(code: str, count: int) -> None:
    assert len(list(lookups(ast.parse(code)))) == count
