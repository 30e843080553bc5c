"""Paths with ~ and links that a project or a user wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.project.included_files import walk_project
from remote.project.paths import expanded, resolved
from remote.project.repository import repository_at
from tests.remote.project.git_tree import git, make, needs_git


@pytest.mark.parametrize("text", ["~no-such-user/x", "~no-such-user", "~a\0b/x", "~\ud800/x", "a/~", "./~/x"])
def test_SE_a_user_who_does_not_exist_is_kept(text: str) -> None:
    assert str(expanded(text)).replace("./", "") == text.replace("./", "")


def test_home_folders_are_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded("~") == tmp_path and expanded(Path("~/x")) == tmp_path / "x"
    assert expanded("~root") == Path("~root").expanduser()


def test_SE_a_circular_link_is_kept(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    for name in ("loop", "loop/in/it", "one", "two/x"):
        assert resolved(tmp_path / name).is_relative_to(tmp_path)
        assert not resolved(tmp_path / name).exists()


def test_SE_links_around_a_circular_link_are_followed(tmp_path: Path) -> None:
    outside, project = tmp_path / "outside", tmp_path / "project"
    outside.mkdir()
    project.mkdir()
    (outside / "loop").symlink_to("loop")
    (project / "link").symlink_to(outside)
    assert resolved(project / "link/loop/x").is_relative_to(outside)
    assert resolved(project / "link/new") == outside / "new" == (project / "link/new").resolve()


@needs_git
@pytest.mark.parametrize("value", ["~no-such-user/ignore", "~no-such-user"])
def test_SE_a_repository_names_an_ignore_file_of_a_user_who_does_not_exist(tmp_path: Path, value: str) -> None:
    make(tmp_path, {"train.py": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "core.excludesFile", value)
    repository = repository_at(tmp_path)
    assert repository is not None and repository.exclude_files[1] == tmp_path / value
    assert [*walk_project(tmp_path).files] == ["train.py"]
