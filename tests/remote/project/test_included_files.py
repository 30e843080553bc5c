"""Which files belong to a project, compared with what git itself lists."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remote.project.git_index import read_index
from remote.project.included_files import walk_project

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git on this machine")
EXAMPLES = int(os.environ.get("HALFSTEP_EXAMPLES", "25"))
IDENTITY = ("-c", "user.name=me", "-c", "user.email=me@here.example")


def git(root: Path, *words: str) -> bytes:
    return subprocess.run(["git", "-C", root, *IDENTITY, *words], capture_output=True, check=True).stdout


def make(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def kept_by_git(root: Path) -> set[str]:
    """The existing files that git lists, in the repository and in each nested one."""
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    kept = set()
    for name in filter(None, listed.split(b"\0")):
        path = os.fsdecode(name).rstrip("/")
        if (root / path).is_dir() and not (root / path).is_symlink():
            kept |= {f"{path}/{inner}" for inner in kept_by_git(root / path)}
        elif os.path.lexists(root / path):
            kept.add(path)
    return kept


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
def test_every_mixture_of_patterns_keeps_what_git_keeps(rules, tmp_path_factory):
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
def test_one_file_of_patterns_keeps_what_git_keeps(tmp_path, lines, ignores_case):
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
def test_repositories_of_every_kind_keep_what_git_keeps(tmp_path, kind):
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
def test_what_is_never_code_is_excluded_by_default(tmp_path, name):
    make(tmp_path, {name: "x", "a.py": "x", "env311/pyvenv.cfg": "home = /usr"})
    assert kept_by_us(tmp_path) == {"a.py"}


def test_a_damaged_index_tracks_nothing(tmp_path):
    make(tmp_path, {".git/index": "DIRC\0\0\0\2\0\0\0\7garbage"})
    assert read_index(tmp_path / ".git") == frozenset()
