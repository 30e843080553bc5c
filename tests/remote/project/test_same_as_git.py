"""The files that halfstep finds in a project are the same as git's."""

from __future__ import annotations

import os
import shutil
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remote.project import automaton
from remote.project.ignore import parse_rules
from tests.remote.project.git_tree import EXAMPLES, git, kept_by_git, kept_by_us, make, needs_git


@pytest.fixture(autouse=True, params=["remembered", "forgotten"])
def _steps(request, monkeypatch):
    if request.param == "forgotten":
        monkeypatch.setattr(automaton, "MOST_BYTES", 0)


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
            "a/***/c",
            "a/**\\/c",
            "****/b",
            "*/**",
            "//",
            "[a-",
            "[!]a].py",
            "*[l-o]og",
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
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_with_any_patterns_the_same_files_are_kept_as_by_git(rules, tmp_path_factory):
    root = tmp_path_factory.mktemp("repo")
    make(root, {folder + name: "x" for folder in FOLDERS for name in NAMES if f"{folder}{name}/" not in FOLDERS})
    for folder, lines in rules.items():
        (root / folder / ".gitignore").write_text("\n".join(lines) + "\n")
    git(root, "init", "-q")
    assert kept_by_us(root) == kept_by_git(root)
    shutil.rmtree(root)


PATHS = st.sampled_from(
    [folder + name for folder in FOLDERS for name in ("a.py", "b.log", "keep.log", "Foo.PY", "é.txt")]
)
TREES = st.fixed_dictionaries(
    {
        "rules": st.dictionaries(st.sampled_from(["", "src/", "a/", "a/b/"]), st.lists(LINES, max_size=4), max_size=3),
        "exclude": st.lists(LINES, max_size=3),
        "personal": st.lists(LINES, max_size=3),
        "tracked": st.sets(PATHS, max_size=6),
        "nested": st.dictionaries(st.sampled_from(["src/data/", "a/b/", "docs/"]), st.booleans(), max_size=2),
        "ignores_case": st.booleans(),
        "newline": st.sampled_from(["\n", "\r\n"]),
    }
)


@needs_git
@given(tree=TREES)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_tracked_files_excludes_and_nested_repositories_are_the_same_as_in_git(tree, tmp_path_factory):
    root = tmp_path_factory.mktemp("repo")
    text = {where: tree["newline"].join([*tree[where], ""]) for where in ("exclude", "personal")}
    make(root, {folder + name: "x" for folder in FOLDERS for name in ("a.py", "b.log", "keep.log", "Foo.PY", "é.txt")})
    for folder, lines in tree["rules"].items():
        make(root, {f"{folder}.gitignore": tree["newline"].join([*lines, ""])})
    for folder, submodule in tree["nested"].items():
        git(root / folder, "init", "-q")
        git(root / folder, "add", "-f", "a.py")
        git(root / folder, "commit", "-qm", "x")
        make(root / folder, {".git/info/exclude": "keep.log\n"})
        tree["tracked"] = {path for path in tree["tracked"] if not path.startswith(folder)} | (
            {folder.rstrip("/")} if submodule else set()
        )
    git(root, "init", "-q")
    make(root, {".git/info/exclude": text["exclude"], ".git/personal": text["personal"]})
    git(root, "config", "core.excludesFile", str(root / ".git/personal"))
    git(root, "config", "core.ignoreCase", str(tree["ignores_case"]).lower())
    if tree["tracked"]:
        git(root, "add", "-f", "--", *sorted(tree["tracked"]))
    assert kept_by_us(root) == kept_by_git(root)
    shutil.rmtree(root)


@needs_git
@pytest.mark.parametrize(
    "lines",
    [
        b"keep.log  \n",
        b"keep.log\\ \n",
        b"keep.log\t\n",
        b"*.LOG\n",
        b"\xef\xbb\xbf*.log\n",
        b"*.log\r\n!keep.log\r\n",
        b"*.log",
        b"b.log\0nothing\n",
        b"?.txt\n",
        b"??.txt\n",
        b"\xc3[\xa0-\xaf].txt\n",
        b"\xff\n*.py\n",
        b"//\n//a.py\n",
        b"!/\n/!\n",
        b"\\\n\\a.py\n",
        b"**/b/**\n!a/b/c/\n",
        b"a/***\n!*/\n",
        b"a/**/c/a.py\n",
        b"/**/a.py\n",
        b"[[:upper:]]oo.PY\n[[:bad:]]*\n",
        b"[!]\\]*\n",
        b"{a,b}.py\n",
    ],
)
@pytest.mark.parametrize("ignores_case", ["false", "true"])
def test_with_one_ignore_file_the_same_files_are_kept_as_by_git(tmp_path, lines, ignores_case):
    make(tmp_path, {folder + name: "x" for folder in FOLDERS for name in NAMES if f"{folder}{name}/" not in FOLDERS})
    (tmp_path / ".gitignore").write_bytes(lines)
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "core.ignoreCase", ignores_case)
    assert kept_by_us(tmp_path) == kept_by_git(tmp_path)


@needs_git
@pytest.mark.parametrize("where", ["default", "home", "setting", "relative", "none", "included"])
def test_the_personal_ignore_file_counts_as_it_does_for_git(tmp_path, monkeypatch, where):
    home, root = tmp_path / "home", tmp_path / "project"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME") if where == "home" else monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "x"))
    make(root, {"a.py": "", "notes.txt": "", "b.tmp": "", ".personal": "*.tmp\n", "excludes": ""})
    make(home, {"x/git/ignore": "notes.txt\n", ".config/git/ignore": "b.tmp\n", "mine": "a.py\n"})
    git(root, "init", "-q")
    value = {"setting": "~/mine", "relative": ".personal", "none": ""}.get(where)
    if value is not None:
        git(root, "config", "--global", "core.excludesFile", value)
    if where == "included":
        make(home, {".gitconfig": "[include]\n  path = other\n", "other": "[CORE]\n  excludesfile = ~/mine\n"})
    assert kept_by_us(root) == kept_by_git(root)


@needs_git
def test_the_environment_of_a_git_hook_changes_nothing(tmp_path, monkeypatch):
    make(tmp_path, {"mine/a.py": "", "mine/b.log": "", "other/x.py": "", "ignore": "*.log\n"})
    for name in ("mine", "other"):
        git(tmp_path / name, "init", "-q")
    git(tmp_path / "mine", "config", "core.excludesFile", str(tmp_path / "ignore"))
    expected = kept_by_git(tmp_path / "mine")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", "other.index")
    assert kept_by_us(tmp_path / "mine") == expected == {"a.py"}


@needs_git
@pytest.mark.parametrize("kind", ["submodule", "clone", "worktree", "sha256", "split"])
def test_in_repositories_of_every_kind_the_same_files_are_kept_as_by_git(tmp_path, kind):
    library, root = tmp_path / "library", tmp_path / "project"
    make(library, {"lib.py": "", "out/kept.py": "", ".gitignore": "out/\n*.log\n"})
    git(library, "init", "-q")
    git(library, "add", "-f", ".")
    git(library, "commit", "-qm", "x")
    make(root, {"a.py": "", "b.log": "", ".gitignore": "vendor/\nlib.py\n", "c.tmp": "", "vendored/lib.py": ""})
    git(root, "init", "-q", *(["--object-format=sha256"] if kind == "sha256" else []))
    make(root, {".git/info/exclude": "*.tmp\n"})
    if kind == "submodule":
        git(
            root,
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            "-f",
            str(library),
            "vendor/library",
        )
        make(root, {"vendor/library/new.py": "", "vendor/library/x.log": "", "vendor/other.py": ""})
    if kind == "clone":
        git(root, "clone", "-q", str(library), "cloned")
        make(root, {"cloned/new.py": "", "cloned/x.log": "", "cloned/y.tmp": ""})
    git(root, "add", "-f", "a.py", "c.tmp")
    git(root, "commit", "-qm", "x")
    if kind == "split":
        git(root, "update-index", "--split-index")
        make(root, {"later.tmp": ""})
        git(root, "add", "-f", "later.tmp")
    if kind == "worktree":
        git(root, "worktree", "add", "-q", str(tmp_path / "linked"))
        root = tmp_path / "linked"
        make(root, {"d.tmp": "", "e.py": ""})
    kept = kept_by_us(root)
    assert kept == kept_by_git(root)
    assert {"submodule": "vendor/library/out/kept.py", "clone": "cloned/out/kept.py"}.get(kind, "c.tmp") in kept


@needs_git
@pytest.mark.parametrize("git_file", ["gitdir: ../nowhere\n", "nonsense", "\0\udcff", "", "gitdir: \n"])
def test_a_git_file_with_a_missing_target_makes_no_repository(tmp_path, git_file):
    make(tmp_path, {"sub/a.py": "", "sub/b.log": "", ".gitignore": "*.log\n"})
    (tmp_path / "sub/.git").write_bytes(os.fsencode(git_file))
    git(tmp_path, "init", "-q")
    assert kept_by_us(tmp_path) == {"sub/a.py", ".gitignore"}


@needs_git
@pytest.mark.parametrize(
    "line", ["*a" * 12 + "b", "**/a/" * 12 + "b", "*a" * 12, "**/a/" * 12, "**\\/a/" * 9 + "b", "?*" * 30]
)
def test_SE_a_pattern_of_many_stars_takes_linear_time(tmp_path, line):
    make(tmp_path, {".gitignore": f"{line}\n", "a" * 200: "", "/".join("a" * 40) + "/x": ""})
    git(tmp_path, "init", "-q")
    kept = kept_by_us(tmp_path)
    assert ("a" * 200 in kept) == (line not in ("*a" * 12, "?*" * 30))


@pytest.mark.parametrize("line", ["*a*a*b{}", "**/a*a*/*{}", "*[a-c]*a*[{}b]c"])
def test_SE_many_patterns_of_many_stars_are_matched_at_once(line):
    rules = parse_rules("\n".join(line.format(number) for number in range(300)).encode())
    names = [f"{'a' * 90}{number}" for number in range(60)]
    began = time.process_time()
    assert not any(rules.verdict(f"a/{name}", name, is_folder=False) for name in names)
    assert time.process_time() - began < 2
