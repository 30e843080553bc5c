"""A repository of another user, which git does not use, does not decide which files are sent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.project.commit import Commit, read_commit
from remote.project.repository import Repository, find_foreign, find_repository, repository_at
from remote.project.scan import Scan, scan_project
from tests.remote.project.git_tree import git, needs_git
from tests.remote.project.test_commit import commit_all

pytestmark = [needs_git, pytest.mark.root]
OTHER = 4242


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like /scratch, with a project of the user in it, and a repository that ignores the project's data."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))
    monkeypatch.delenv("SUDO_UID", raising=False)
    shared = tmp_path / "scratch"
    (shared / "me").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (shared / "me/train.py").write_text("print()\n")
    (shared / "me/wanted.py").write_text("print()\n")
    git(shared, "init", "-q")
    commit_all(shared)
    (shared / ".git/info/exclude").write_text("wanted.py\n")
    git(shared, "rm", "-q", "--cached", "me/wanted.py")
    return shared


def give_away(path: Path) -> None:
    for one in (path, *path.rglob("*")):
        os.chown(one, OTHER, -1, follow_symlinks=False)


def sent(project: Path) -> tuple[Scan, set[str]]:
    scan = scan_project(project)
    return scan, set(scan.manifest.rows)


def warnings(scan: Scan) -> list[str]:
    return [finding.message for finding in scan.report.findings if finding.check == "git-not-used"]


def test_a_repository_of_another_user_above_the_project_is_not_used(shared: Path) -> None:
    assert sent(shared / "me")[1] == {"train.py"} and find_repository(shared / "me") is not None
    give_away(shared / ".git")
    scan, files = sent(shared / "me")
    assert files == {"train.py", "wanted.py"}
    [message] = warnings(scan)
    assert f"belongs to another user (uid {OTHER})" in message
    assert find_repository(shared / "me") is None and read_commit(shared / "me", ["train.py"]) == Commit()


@pytest.mark.parametrize("how", ["a link", "a link of another user", "a file", "a file of another user"])
def test_a_git_folder_of_another_user_that_is_only_named_is_not_used(shared: Path, how: str) -> None:
    theirs = shared.parent / "theirs"
    (shared / ".git").rename(theirs)
    if "link" in how:
        (shared / ".git").symlink_to(theirs)
    else:
        (shared / ".git").write_text(f"gitdir: {theirs}\n")
    assert isinstance(repository_at(shared), Repository)
    if "of another user" in how:
        os.chown(shared / ".git", OTHER, -1, follow_symlinks=False)
    else:
        give_away(theirs)
    assert repository_at(shared) is None
    assert warnings(sent(shared / "me")[0])


def test_the_repository_of_the_user_above_one_of_another_user_is_used(shared: Path) -> None:
    git(shared / "me", "init", "-q")
    give_away(shared / "me/.git")
    assert sent(shared / "me")[1] == {"train.py"}


@pytest.mark.parametrize("setting", ["{0}", "*", "{0}/../scratch/*"])
def test_a_repository_that_safe_directory_names_is_used_as_by_git(shared: Path, setting: str) -> None:
    give_away(shared / ".git")
    value = setting.format(shared)
    git(shared.parent, "config", "--global", "safe.directory", value)
    accepted = ".." not in value
    assert (find_repository(shared / "me") is not None) is accepted
    assert bool(warnings(sent(shared / "me")[0])) is not accepted


def test_under_sudo_the_repository_of_the_user_who_ran_it_is_used(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_away(shared / ".git")
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    assert find_repository(shared / "me") is not None


@pytest.mark.parametrize("call", ["lstat", "stat"])
def test_a_git_folder_that_vanishes_while_its_owner_is_judged_is_not_used(
    shared: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    give_away(shared / ".git")
    real, missing = getattr(Path, call), [shared / ".git"]

    def once_missing(path: Path, **options: bool) -> os.stat_result:
        if path in missing:
            missing.remove(path)
            raise FileNotFoundError(path)
        result: os.stat_result = real(path, **options)
        return result

    monkeypatch.setattr(Path, call, once_missing)
    assert repository_at(shared) is None


def test_a_link_of_another_user_to_nothing_is_reported(shared: Path) -> None:
    (shared / ".git").rename(shared / "away")
    (shared / ".git").symlink_to(shared / "nothing")
    os.chown(shared / ".git", OTHER, -1, follow_symlinks=False)
    assert find_foreign(shared / "me") == (shared / ".git", OTHER)
    assert repository_at(shared) is None
