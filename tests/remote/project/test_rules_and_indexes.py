"""The memory and the time that ignore files and indexes of a project take are limited."""

from __future__ import annotations

import re
import struct
import time
import tracemalloc
from pathlib import Path

import pytest

from remote.project.ignore import parse_rules
from remote.project.included_files import walk_project
from tests.remote.project.git_tree import git, make, needs_git

LETTERS = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "[]\\!^-/")


def test_SE_different_brackets_are_not_compiled_again_for_each_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = parse_rules("\n".join(f"*[{one}{two}]*!" for one in LETTERS[:60] for two in LETTERS).encode())
    assert rules.verdict("a", "a", is_folder=False) is None
    monkeypatch.setattr(re, "compile", None)
    assert rules.verdict(LETTERS, LETTERS, is_folder=False) is None


def test_SE_many_different_brackets_and_letters_take_little_time() -> None:
    brackets = [f"[{one}{two}{three}]" for one in LETTERS[:12] for two in LETTERS for three in LETTERS[:20]]
    rules = parse_rules("\n".join("".join(brackets[at : at + 500]) for at in range(0, len(brackets), 500)).encode())
    began = time.process_time()
    assert rules.verdict(LETTERS, LETTERS, is_folder=False) is None
    assert time.process_time() - began < 3  # 9 s with a regular expression for each bracket and letter


def add_nested(root: Path, folders: str, exclude: str = "") -> Path:
    make(root / folders, {".git/HEAD": "", ".git/objects/x": "", ".git/refs/x": "", ".git/info/exclude": exclude})
    make(root / folders, {"a.x": "", ".gitignore": "*.x"})
    return root / folders / ".git"


@pytest.mark.parametrize("nested", [True, False], ids=["in one another", "side by side"])
def test_SE_the_rules_of_nested_repositories_have_one_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    monkeypatch.setattr("remote.project.rule_files.MAX_RULES", 1000)
    for number in range(4):
        add_nested(tmp_path, "/".join("r" * (number + 1)) if nested else f"r{number}", "b\n" * 200)
    unreadable = walk_project(tmp_path).unreadable
    assert list(unreadable) == ["r/r/r" if nested else "r1"] and "the ignore files have more" in str(unreadable)


@needs_git
def test_SE_the_rules_above_the_project_and_those_in_its_git_folder_count_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remote.project.rule_files.MAX_RULES", 1000)
    git(tmp_path, "init", "-q")
    for name, lines in ((".git/info/exclude", 200), (".gitignore", 400)):
        make(tmp_path, {"project/a.py": "", name: "b\n" * lines})
        unreadable = walk_project(tmp_path / "project").unreadable
        assert list(unreadable) == ([""] if name == ".gitignore" else [])


@needs_git
def test_the_users_own_ignore_file_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote.project.rule_files.MAX_RULES", 1000)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    make(tmp_path, {"settings/git/ignore": "*.log\n" + "#\n" * 300})
    for number in range(4):
        add_nested(tmp_path / "project", f"r{number}")
        make(tmp_path / f"project/r{number}", {"a.py": "", "a.log": ""})
    walk = walk_project(tmp_path / "project")
    assert walk.unreadable == {} and {path for path in walk.files if path.startswith("r1/")} == {
        "r1/a.py",
        "r1/.gitignore",
    }


def write_index(git_folder: Path, names: list[str]) -> None:
    entries = b"".join(bytes(62) + _after(name) for name in names)
    (git_folder / "index").write_bytes(b"DIRC" + struct.pack(">II", 2, len(names)) + entries + bytes(20))


def _after(name: str) -> bytes:
    data = name.encode()
    return data + bytes(8 - (62 + len(data)) % 8)


@pytest.mark.parametrize("setting", ["", "[core]\n\tignorecase = true\n"], ids=["case counts", "ignores case"])
def test_SE_the_paths_of_a_nested_index_are_not_copied_with_the_path_of_its_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setattr("remote.project.git_index.MAX_INDEX", 2**20)
    folder = "/".join(["\U0001f600", *(["d" * 200] * 8)])
    nested = add_nested(tmp_path, folder)
    (nested / "config").write_text(f"{setting}[core]\n\trepositoryformatversion = 0\n")
    write_index(nested, [f"n{number:05}" for number in range(4000)] + ["x.x"])
    make(tmp_path / folder, {"x.x": "tracked", "sub/x.x": "not tracked"})
    tracemalloc.start()
    try:
        walk = walk_project(tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert walk.tracked == {f"{folder}/x.x"}
    assert {*walk.files} == {f"{folder}/x.x", f"{folder}/.gitignore"}
    assert peak < 4 * 2**20  # a copy takes more than 6 KB, so all take 25 MiB


@needs_git
def test_tracked_files_are_found_below_a_root_inside_a_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    make(tmp_path, {"a/b/kept.x": "", "a/b/other.x": "", "kept.x": "", ".gitignore": "*.x"})
    git(tmp_path, "add", "-f", "a/b/kept.x", "kept.x")
    walk = walk_project(tmp_path / "a")
    assert walk.tracked == {"b/kept.x"} == {*walk.files}
    assert walk.scopes[0].count_tracked("b") == 1 and walk.scopes[0].count_tracked("c") == 0
