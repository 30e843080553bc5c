"""Which files of a folder belong to the project, and which are excluded by git or the user."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.frame.target_of import target_of
from remote.errors import FixRefused
from tests.fixers.casebook import TITAN_RTX


def _make(root: Path, *paths: str) -> None:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(path.encode())


def test_environments_caches_links_and_our_own_folder_are_left_out(tmp_path: Path) -> None:
    _make(tmp_path, "src/a.py", "b.ipynb", ".git/config.py", ".halfstep/x.py", "env/lib/x.py", "env/pyvenv.cfg")
    _make(tmp_path, "conda/conda-meta/x.json", "conda/y.py", "src/__pycache__/a.py", "node_modules/z.py", "z/é.py")
    (tmp_path / "link.py").symlink_to(tmp_path / "src/a.py")
    (tmp_path / "folder").symlink_to(tmp_path / "src")
    tree = DiskTree(tmp_path)
    assert list(tree.paths()) == ["b.ipynb", "src/a.py", "z/é.py"]
    assert tree.read("src/a.py") == b"src/a.py"


def test_a_project_that_is_an_environment_itself_is_still_read(tmp_path: Path) -> None:
    _make(tmp_path, "pyvenv.cfg", "train.py")
    assert "train.py" in list(DiskTree(tmp_path).paths())


RULES = {
    ".gitignore": "*.log\n/data/\nbuild/\n!keep.log\n# a comment\nsub/only.py\n",
    "sub/.gitignore": "*.tmp\n!important.log\n/here.py\n",
    "sub/deep/.gitignore": "!*.tmp\n",
}
FILES = ("a.py", "x.log", "keep.log", "data/d.py", "sub/data/d.py", "build/b.py", "sub/build/b.py", "sub/only.py")
MORE = ("sub/x.tmp", "sub/deep/x.tmp", "sub/important.log", "sub/here.py", "sub/deep/here.py", "sub/other.log")


@pytest.mark.skipif(shutil.which("git") is None, reason="no git on this machine")
def test_git_ignores_the_same_files(tmp_path: Path) -> None:
    _make(tmp_path, *FILES, *MORE)
    for name, text in RULES.items():
        (tmp_path / name).write_text(text)
    git = ["git", "-C", str(tmp_path), "-c", "core.excludesFile=/dev/null"]
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run([*git, "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True)
    assert sorted(DiskTree(tmp_path).paths()) == sorted(listed.stdout.splitlines())


def test_an_invalid_line_is_skipped(tmp_path: Path) -> None:
    _make(tmp_path, "a.py", "b.py")
    (tmp_path / ".gitignore").write_text("!\n/\n\\\nb.py\n")
    assert "b.py" not in list(DiskTree(tmp_path).paths())
    assert "a.py" in list(DiskTree(tmp_path).paths())


def test_pipelineignore_excludes_files_that_git_includes(tmp_path: Path) -> None:
    _make(tmp_path, "a.py", "legacy/old.py")
    (tmp_path / ".pipelineignore").write_text("legacy/\n")
    assert "legacy/old.py" not in list(DiskTree(tmp_path).paths())


@pytest.mark.parametrize(
    ("version", "asked", "answer"),
    [("4.46.1", (4, 46), True), ("4.46.1", (5,), False), ("5.0.0.dev0", (5,), True), (None, (5,), None)],
)
def test_a_target_compares_versions_that_are_known(
    tmp_path: Path, version: str | None, asked: tuple[int, ...], answer: bool | None
) -> None:
    if version:
        (tmp_path / "requirements.txt").write_text(f"transformers=={version}\n")
    target = target_of(Site(DiskTree(tmp_path), gpu=TITAN_RTX))
    assert target.at_least("transformers", asked) is answer
    assert target.below((8, 0))
    assert not target.below((7, 5))


@pytest.mark.parametrize("replacement", ["", "a file", "a link"])
def test_SE_a_file_below_a_folder_that_was_replaced_after_the_walk_is_not_read(
    tmp_path: Path, replacement: str
) -> None:
    _make(tmp_path / "project", "src/a.py", "b.py")
    _make(tmp_path, "outside/a.py")
    tree = DiskTree(tmp_path / "project")
    assert list(tree.paths()) == ["b.py", "src/a.py"]
    folder = tmp_path / "project" / "src"
    folder.rename(tmp_path / "moved")
    if replacement == "a file":
        folder.write_text("")
    elif replacement == "a link":
        folder.symlink_to(tmp_path / "outside")
    with pytest.raises(FixRefused, match=r"^src/a\.py was changed while the project was read"):
        tree.read("src/a.py")
    assert tree.read("b.py") == b"b.py"


def test_SE_a_project_with_too_much_python_is_refused_before_its_files_are_read(tmp_path: Path) -> None:
    for number in range(20):
        with (tmp_path / f"m{number}.py").open("wb") as file:
            file.truncate(15 * 10**6)
    with pytest.raises(FixRefused, match=r"300\.0 MB of Python files, over 256\.0 MB"):
        DiskTree(tmp_path).paths()
