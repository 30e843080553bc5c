"""The laptop's modules write files through the few functions that follow no link."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.contracts.project_modules import modules

ELSEWHERE = {
    "pipeline.records.consents": "the user's configuration folder",
    "pipeline.actions.adapter_evaluation": "a new temporary folder",
    "pipeline.cli.completion": "the user's shell",
    "fixers.pages": "the documentation of the source tree",
    "pipeline.pages.checks": "the documentation of the source tree",
    "pipeline.pages.schemas": "the documentation of the source tree",
    "pipeline.pages.write": "the documentation of the source tree",
}
"""Modules that write only to folders that no project can contain."""
PLAIN = ("write_bytes", "write_text", "touch")
COPIES = ("copy", "copyfile", "copy2", "copytree")


def plain_writes(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of calls that write to a path, and would follow a link in its place."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        writes = name in PLAIN and "host" not in ast.dump(node.func)
        copies = name in COPIES and isinstance(owner, ast.Name) and owner.id == "shutil"
        opens = name == "open" and _mode(node, 0 if owner is not None else 1).strip("rbtU")
        opens = opens and all(word.arg != "fileobj" for word in node.keywords)
        if writes or copies or opens:
            yield node.lineno


def _mode(call: ast.Call, position: int) -> str:
    """Return the mode of a call of `open`: "w" if it is no constant, "r" if there is none."""
    named = [word.value for word in call.keywords if word.arg == "mode"]
    given = (*named, *call.args[position : position + 1])
    if not given:
        return "r"
    return str(given[0].value) if isinstance(given[0], ast.Constant) and isinstance(given[0].value, str) else "r"


def test_SE_no_module_of_the_laptop_writes_through_a_link() -> None:
    found = [
        f"{module.where}:{line}"
        for module in modules()
        if module.name.startswith(("pipeline", "fixers", "remote")) and not module.name.startswith("remote.payload")
        if module.name not in ELSEWHERE
        for line in plain_writes(module.tree)
    ]
    assert found == [], "use write_atomic, write_state, replacing or Folder.opened"


CREATES_FOLDERS = {"remote.project.records_folder", "remote.project.user_folder"}
"""The modules whose functions create folders for the others, with a mode."""
TEMPORARY = {"remote.project.commit": "a new temporary folder"}


def test_SE_folders_are_created_only_by_functions_that_close_them_to_other_users() -> None:
    found = [
        f"{module.where}:{node.lineno}"
        for module in modules()
        if module.name.startswith(("pipeline", "fixers", "remote")) and not module.name.startswith("remote.payload")
        if module.name not in {*ELSEWHERE, *CREATES_FOLDERS, *TEMPORARY}
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("mkdir", "makedirs") and all(word.arg != "dir_fd" for word in node.keywords)
    ]
    assert found == [], "use create_folder, or create_private for the user's own folders"


@pytest.mark.parametrize(
    ("code", "writes"),
    [
        ("part.write_bytes(b'')", True),
        ("path.open('wb')", True),
        ("open(path, 'a')", True),
        ("open(path, mode='x')", True),
        ("shutil.copyfile(a, b)", True),
        ("path.open('rb')", False),
        ("tarfile.open(fileobj=buffer, mode='w')", False),
        ("open(path)", False),
        ("host.write_bytes(path, b'')", False),
        ("webbrowser.open(page)", False),
    ],
)
def test_such_writes_are_recognised(code: str, writes: bool) -> None:
    assert bool(list(plain_writes(ast.parse(code)))) is writes
