"""What is ignored, held against git itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remote.project.git_index import tracked_paths
from remote.project.walk import walk_project

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git on this machine")


def git(root: Path, *words: str) -> bytes:
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    return subprocess.run(["git", "-C", root, *words], capture_output=True, check=True, env=environment).stdout


def make(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def kept_by_git(root: Path) -> set[str]:
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return {os.fsdecode(name) for name in listed.split(b"\0") if name}


def kept_by_us(root: Path) -> set[str]:
    walk = walk_project(root)
    return {*walk.files, *walk.links}


NAMES = ("a.py", "b.log", "keep.log", "build", "a b.txt", "x[1].md", "Foo.PY", "data.bin", "#x", "!y", "-rf", "é.txt")
FOLDERS = ("", "src/", "src/build/", "docs/", "build/", "a/b/c/", "a/b/", "src/data/")
LINES = st.sampled_from(
    [
        *(
            "*.log",
            "!keep.log",
            "build",
            "build/",
            "/build",
            "src/*.py",
            "**/build",
            "a/**",
            "a/**/c",
            "**",
            "*",
            "!*/",
        ),
        *(
            "!*.py",
            "/*",
            "!/src/",
            "!/src",
            "src/**/data.bin",
            "a b.txt",
            "x[1].md",
            r"x\[1\].md",
            "[!a].py",
            "[a-c].py",
        ),
        *(
            "\\#x",
            "#x",
            "\\!y",
            "!y",
            "*.py ",
            "foo\\ ",
            "?.py",
            "/a/b",
            "a/b/",
            "b/c",
            "**/",
            "/**",
            "*/c",
            "***",
            "a/***",
        ),
        *(
            "[[:alpha:]].py",
            "[^b].py",
            "[]a].py",
            "[a",
            "src//a.py",
            "./a.py",
            "/",
            "!",
            "",
            "é.txt",
            "*.[pl]*",
            "doc?/",
        ),
        *(
            "!src/build/keep.log",
            "!build/",
            "src/build/*",
            "!**/keep.log",
            "**/a/b",
            "a**",
            "**b",
            "a**b/c",
            "-rf",
            "\\",
        ),
    ]
)


@needs_git
@given(rules=st.dictionaries(st.sampled_from(["", "src/", "a/", "src/data/"]), st.lists(LINES, max_size=5), max_size=3))
@settings(
    max_examples=int(os.environ.get("HALFSTEP_EXAMPLES", "25")), deadline=None, suppress_health_check=list(HealthCheck)
)
def test_every_mixture_of_patterns_keeps_what_git_keeps(rules, tmp_path_factory):
    root = tmp_path_factory.mktemp("repo")
    make(root, {folder + name: "x" for folder in FOLDERS for name in NAMES if not (root / folder / name).is_dir()
                and f"{folder}{name}/" not in FOLDERS})  # fmt: skip
    for folder, lines in rules.items():
        (root / folder / ".gitignore").write_text("\n".join(lines) + "\n")
    git(root, "init", "-q")
    assert kept_by_us(root) == kept_by_git(root)
    shutil.rmtree(root)


@needs_git
def test_what_git_tracks_is_the_project_s_even_where_it_is_ignored(tmp_path):
    make(
        tmp_path,
        {"out/best.json": "{}", "out/other.json": "{}", ".gitignore": "out/\n*.bin\n", "w.bin": "", "v.bin": ""},
    )
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", "out/best.json", "w.bin")
    assert kept_by_us(tmp_path) == kept_by_git(tmp_path) == {"out/best.json", ".gitignore", "w.bin"}


@needs_git
@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_index_is_read_in_every_version_that_git_writes(tmp_path, version):
    names = {f"a{'b' * i}/c{i}.py": "" for i in range(1, 40)} | {"é.txt": "", "z z": ""}
    make(tmp_path, names)
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "index.version", str(version))
    git(tmp_path, "add", "-A")
    git(tmp_path, "update-index", f"--index-version={version}")
    if version == 3:
        make(tmp_path, {"later.py": "x"})
        git(tmp_path, "add", "-N", "later.py")
        names["later.py"] = "x"
    assert tracked_paths(tmp_path / ".git") == set(names)


@needs_git
def test_rules_above_the_project_and_in_info_exclude_count(tmp_path):
    make(
        tmp_path,
        {
            ".gitignore": "*.tmp\n/inner/cache/\n",
            "inner/cache/x": "",
            "inner/a.tmp": "",
            "inner/a.py": "",
            "inner/b.no": "",
        },
    )
    git(tmp_path, "init", "-q")
    (tmp_path / ".git/info/exclude").write_text("*.no\n")
    assert kept_by_us(tmp_path / "inner") == {"a.py"}


def test_a_project_inside_an_ignored_folder_is_still_a_project(tmp_path):
    make(tmp_path, {".gitignore": "inner/\n", "inner/a.py": ""})
    (tmp_path / ".git").mkdir()
    assert kept_by_us(tmp_path / "inner") == {"a.py"}


def test_pipelineignore_has_the_last_word(tmp_path):
    make(
        tmp_path,
        {
            ".gitignore": "*.bin\n",
            ".pipelineignore": "!need.bin\nnotes/\n",
            "need.bin": "",
            "x.bin": "",
            "notes/n.md": "",
        },
    )
    assert kept_by_us(tmp_path) == {".gitignore", ".pipelineignore", "need.bin"}


def test_pipelineignore_leaves_out_a_folder_that_git_tracks(tmp_path):
    make(tmp_path, {".pipelineignore": "/notes/\n", "notes/n.md": "", "notes/deep/d.md": "", "a.py": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    assert kept_by_us(tmp_path) == {".pipelineignore", "a.py"}


@pytest.mark.parametrize("name", [".git/config", ".halfstep/state.json", "__pycache__/a.pyc", "env311/bin/python"])
def test_what_is_never_code_is_left_out_without_being_asked(tmp_path, name):
    make(tmp_path, {name: "x", "a.py": "x", "env311/pyvenv.cfg": "home = /usr"})
    assert kept_by_us(tmp_path) == {"a.py"}


def test_a_damaged_index_tracks_nothing(tmp_path):
    make(tmp_path, {".git/index": "DIRC\0\0\0\2\0\0\0\7garbage"})
    assert tracked_paths(tmp_path / ".git") == frozenset()
