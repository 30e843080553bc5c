"""Which files belong to a project beyond the rules of git, and without git."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from remote.project.git_index import read_index
from remote.project.ignore import parse_rules
from remote.project.included_files import Inclusions, walk_project
from tests.remote.project.git_tree import git, kept_by_git, kept_by_us, make, needs_git

NOT_SOURCE = ("node_modules/x.js", ".tox/py/x.py", "lib/site-packages/x.py", "env/x.py", "conda/x.py")
MARKS = {"env/pyvenv.cfg": "", "conda/conda-meta/history": ""}


@pytest.mark.parametrize("path", NOT_SOURCE)
def test_installed_packages_and_caches_are_not_source(tmp_path, path):
    make(tmp_path, {path: "", "a.py": "", **MARKS})
    assert kept_by_us(tmp_path) == {"a.py"}


@needs_git
@pytest.mark.parametrize("path", NOT_SOURCE)
def test_installed_packages_that_git_tracks_belong_to_the_project(tmp_path, path):
    make(tmp_path, {path: "", f"{path}.untracked": "", "a.py": "", **MARKS})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", path)
    assert kept_by_us(tmp_path) == {path, "a.py"}


@pytest.mark.parametrize(("file", "line"), [(".pipelineignore", "!node_modules/"), (".gitignore", "!node_modules")])
def test_an_ignore_file_can_include_what_is_excluded_by_default(tmp_path, file, line):
    make(tmp_path, {"node_modules/x.js": "", ".tox/x.py": "", file: line})
    assert kept_by_us(tmp_path) == {"node_modules/x.js", file}


def test_pipelineignore_can_include_an_environment(tmp_path):
    make(tmp_path, {"env/x.py": "", "env/pyvenv.cfg": "", ".pipelineignore": "!env/"})
    assert kept_by_us(tmp_path) == {"env/x.py", "env/pyvenv.cfg", ".pipelineignore"}


@needs_git
def test_pipelineignore_reaches_into_nested_repositories(tmp_path):
    make(tmp_path, {"sub/a.py": "", "sub/big.bin": "", ".pipelineignore": "*.bin\n", "sub/.pipelineignore": "!a.bin\n"})
    make(tmp_path, {"sub/a.bin": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path / "sub", "init", "-q")
    git(tmp_path / "sub", "add", "-f", ".")
    assert kept_by_us(tmp_path) == {"sub/a.py", "sub/a.bin", ".pipelineignore", "sub/.pipelineignore"}


@needs_git
def test_a_relative_root_is_the_folder_that_it_names(tmp_path, monkeypatch):
    make(tmp_path, {".gitignore": "*.log\n", "inner/a.py": "", "inner/b.log": ""})
    git(tmp_path, "init", "-q")
    monkeypatch.chdir(tmp_path / "inner")
    assert kept_by_us(Path()) == {"a.py"}


def test_without_the_git_program_the_index_and_the_rules_in_the_tree_still_count(tmp_path, monkeypatch):
    make(tmp_path, {".gitignore": "out/\n", "out/a.py": "", "out/b.py": "", "c.tmp": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", "out/a.py")
    make(tmp_path, {".git/info/exclude": "*.tmp\n"})
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert kept_by_us(tmp_path) == {".gitignore", "out/a.py"}


@needs_git
def test_what_git_tracks_belongs_to_the_project_even_if_it_is_ignored(tmp_path):
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
    assert read_index(tmp_path / ".git") == set(names)


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


@needs_git
def test_a_project_inside_an_ignored_folder_is_still_a_project(tmp_path):
    make(tmp_path, {".gitignore": "inner/\n", "inner/a.py": ""})
    git(tmp_path, "init", "-q")
    assert kept_by_us(tmp_path / "inner") == {"a.py"}


def test_pipelineignore_overrides_all_other_rules(tmp_path):
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
def test_folders_that_never_hold_code_are_excluded_by_default(tmp_path, name):
    make(tmp_path, {name: "x", "a.py": "x", "env311/pyvenv.cfg": "home = /usr"})
    assert kept_by_us(tmp_path) == {"a.py"}


def test_a_damaged_index_tracks_nothing(tmp_path):
    make(tmp_path, {".git/index": "DIRC\0\0\0\2\0\0\0\7garbage"})
    assert read_index(tmp_path / ".git") == frozenset()


@pytest.mark.parametrize("kind", ["endless", "pipe"])
def test_SE_an_index_that_is_no_regular_file_is_not_read(tmp_path, kind):
    make(tmp_path, {".git/HEAD": "", ".git/objects/x": "", ".git/refs/x": "", "a.py": ""})
    index = tmp_path / ".git/index"
    index.symlink_to("/dev/zero") if kind == "endless" else os.mkfifo(index)
    assert read_index(tmp_path / ".git") == frozenset()
    assert kept_by_us(tmp_path) == {"a.py"}


def test_SE_the_paths_of_an_index_cannot_grow_beyond_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("remote.project.git_index.MAX_MEMORY", 4000)
    entry = bytes(62)
    first = entry + b"\0" + b"x" * 1000 + b"\0"
    for more, names in ((1, 1), (2, 1), (10, 0)):
        data = b"DIRC" + struct.pack(">II", 4, 1 + more) + first + (entry + b"\0\0") * more
        make(tmp_path, {".git/x": ""})
        (tmp_path / ".git/index").write_bytes(data + bytes(20))
        assert len(read_index(tmp_path / ".git")) == names


@pytest.mark.parametrize(("path", "names"), [("x" * 1000, 1), ("\U0001f600" + "x" * 999, 0)])
def test_SE_a_path_counts_with_the_memory_that_it_takes(tmp_path, monkeypatch, path, names):
    monkeypatch.setattr("remote.project.git_index.MAX_MEMORY", 2000)
    make(tmp_path, {".git/x": ""})
    entry = bytes(62) + b"\0" + path.encode() + b"\0"
    (tmp_path / ".git/index").write_bytes(b"DIRC" + struct.pack(">II", 4, 1) + entry + bytes(20))
    assert len(read_index(tmp_path / ".git")) == names


@pytest.mark.parametrize(("limit", "kept"), [(400, {"b/ignored.py"}), (10_000, {"a/ignored.py", "b/ignored.py"})])
def test_SE_the_indexes_of_nested_repositories_have_one_limit(tmp_path, monkeypatch, limit, kept):
    for name in ("b", "a"):
        make(tmp_path / name, {"ignored.py": "x", ".gitignore": "*"})
        git(tmp_path / name, "init", "-q")
        (tmp_path / name / ("y" * 200)).touch()
        git(tmp_path / name, "add", "-f", ".")
    git(tmp_path, "init", "-q")
    monkeypatch.setattr("remote.project.git_index.MAX_MEMORY", limit)
    assert {path for path in kept_by_us(tmp_path) if path.endswith(".py")} == kept


@pytest.mark.parametrize(("length", "names"), [(4096, 1), (4097, 0), (600_000, 0)])
def test_SE_an_index_with_a_path_that_linux_cannot_open_is_not_used(tmp_path, length, names):
    make(tmp_path, {".git/HEAD": "", ".git/objects/x": "", ".git/refs/x": "", "a.py": ""})
    path = (b"a/" * length)[: length - 1] + b"b"
    data = b"DIRC" + struct.pack(">II", 4, 1) + bytes(62) + b"\0" + path + b"\0"
    (tmp_path / ".git/index").write_bytes(data + bytes(20))
    assert len(read_index(tmp_path / ".git")) == names
    assert kept_by_us(tmp_path) == {"a.py"}


def test_SE_a_pattern_that_is_longer_than_any_path_is_skipped(tmp_path):
    long = "?" * 4097 + "\n" + "\\" * 2**18 + " " * 2**18 + "\n"
    make(tmp_path, {".gitignore": f"{long}*.bin\n", "a.py": "", "a.bin": ""})
    assert [each.glob for each in parse_rules((tmp_path / ".gitignore").read_bytes()).patterns] == ["*.bin"]
    assert kept_by_us(tmp_path) == {".gitignore", "a.py"}


def test_SE_ignore_files_that_are_too_large_together_end_the_walk_with_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("remote.project.rule_files.MAX_RULES", 100)
    make(tmp_path, {".gitignore": "*.bin\n", "a.py": "", "sub/.gitignore": f"{'x' * 95}\n", "sub/b.py": ""})
    walk = walk_project(tmp_path)
    assert list(walk.unreadable) == ["sub"] and "ignore files" in walk.unreadable["sub"]
    assert "sub/b.py" not in walk.files


@needs_git
@pytest.mark.parametrize("lines", [(), ("!/data",), ("!/data/**",), ("!/data", "!/data/**"), ("!/data/toy", "a.wav")])
@pytest.mark.parametrize("rules", ["data/\n", "*.json\n*.wav\n", "/data/*\n", "data/toy\n*.json\n", "toy/\n!a.wav\n"])
@pytest.mark.parametrize("inner", ["", "*.json\n", "!b.json\n"])
def test_the_files_that_more_lines_would_include_are_those_that_the_walk_finds(tmp_path, rules, lines, inner):
    files = ("data/toy/b.json", "data/toy/a.wav", "data/c.txt", "env/bin/d.txt", "data/tracked/e.json")
    make(
        tmp_path, {**dict.fromkeys(files, ""), "env/pyvenv.cfg": "", ".gitignore": rules, ".pipelineignore": "*.txt\n"}
    )
    make(tmp_path, {"data/toy/.pipelineignore": inner})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", "data/tracked/e.json")
    before = Inclusions(tmp_path)
    expected = {path: before.would_include([path], lines) for path in files}
    all_files = [path for path in files if expected[path]]
    assert before.would_include(all_files, lines)
    make(tmp_path, {".pipelineignore": "\n".join(("*.txt", *lines))})
    assert expected == {path: path in walk_project(tmp_path).files for path in files}
    assert before.would_include(all_files, lines)


def test_the_rules_below_a_link_are_not_read(tmp_path):
    make(tmp_path / "outside", {"toy/b.json": "", "toy/.gitignore": "*\n", ".gitignore": "*\n"})
    make(tmp_path / "project", {".pipelineignore": "/data\n"})
    (tmp_path / "project/data").symlink_to(tmp_path / "outside")
    assert not Inclusions(tmp_path / "project").would_include(["data/toy/b.json"], ())
    assert Inclusions(tmp_path / "project").would_include(["data/toy/b.json"], ("!/data",))
