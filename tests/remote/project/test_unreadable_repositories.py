"""A repository in which git fails, or waits for a FIFO or a device that the project contains or names."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from remote.project import repository
from remote.project.commit import Commit, read_commit
from remote.project.git import run_git
from remote.project.included_files import walk_project
from remote.project.repository import repository_at
from remote.project.scan import scan_project
from tests.remote.project.git_tree import git, make, needs_git
from tests.remote.project.test_commit import commit_all

pytestmark = needs_git
INCLUDE = '[include]\n\tpath = "{}"\n'


@pytest.fixture(autouse=True)
def deadlines(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The deadlines of git in repositories, in order. A FIFO has no writer, so no deadline is too short for it."""
    monkeypatch.setattr(repository, "REPOSITORY_DEADLINE_S", 0.1)
    monkeypatch.setattr(repository, "_SILENT", set())
    used = list[float]()

    def recorded(git_folder: Path, words: Sequence[str], deadline_s: float, *limits: Any) -> tuple[int, str]:
        if git_folder != Path(os.devnull):
            used.append(deadline_s)
        return run_git(git_folder, words, deadline_s, *limits)

    monkeypatch.setattr(repository, "run_git", recorded)
    return used


@pytest.fixture
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "REPOSITORY_DEADLINE_S", 10.0)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a commit, whose personal ignore file excludes `personal`."""
    home = tmp_path / "home"
    make(home, {".gitconfig": "[core]\n\texcludesFile = ~/mine\n", "mine": "personal\n"})
    monkeypatch.setenv("HOME", str(home))
    folder = tmp_path / "project"
    make(folder, {"a.py": "a\n", "personal": "mine\n"})
    git(folder, "init", "--quiet")
    commit_all(folder)
    (folder / "personal").unlink()
    git(folder, "add", "--all")
    return folder


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def extend(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as opened:
        opened.write(text)


def replace_by_fifo(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(file)


def head_object(dot_git: Path) -> Path:
    shown = subprocess.run(["git", "rev-parse", "HEAD"], cwd=dot_git.parent, capture_output=True, text=True, check=True)
    return dot_git / "objects" / shown.stdout[:2] / shown.stdout[2:].strip()


def alternate(dot_git: Path, pipe: Path) -> None:
    """Move the object of HEAD to a second alternate, and replace it there."""
    found = head_object(dot_git)
    first, second = pipe.parent / "first", pipe.parent / "second"
    replace_by_fifo(second / found.relative_to(dot_git / "objects"))
    found.unlink()
    extend(first / "info/alternates", f"{second}\n")
    extend(dot_git / "objects/info/alternates", f"{os.path.relpath(first, dot_git / 'objects')}\n")


def chain(dot_git: Path, pipe: Path) -> None:
    extend(dot_git / "config", INCLUDE.format("../one"))
    extend(dot_git.parent / "one", INCLUDE.format("~/two"))
    extend(Path("~/two").expanduser(), f'[includeIf "gitdir:/"]\n\tpath = {pipe}\n')


def repeated(dot_git: Path, pipe: Path) -> None:
    """Make git print a setting of 400 KB three times."""
    extend(pipe.parent / "long", f"[core]\n\texcludesfile = /{'a' * 400_000}\n")
    extend(dot_git / "config", INCLUDE.format(pipe.parent / "long") * 3)


SETTINGS: dict[str, Callable[[Path, Path], object]] = {
    "include": lambda dot_git, pipe: extend(dot_git / "config", INCLUDE.format(pipe)),
    "condition": lambda dot_git, pipe: extend(dot_git / "config", f'[includeIf "gitdir:/**"]\n\tpath = {pipe}\n'),
    "chain": chain,
    "config": lambda dot_git, _: replace_by_fifo(dot_git / "config"),
    "HEAD": lambda dot_git, _: replace_by_fifo(dot_git / "HEAD"),
    "device": lambda dot_git, _: extend(dot_git / "config", INCLUDE.format("/dev/zero")),
    "repeated": repeated,
    "damaged": lambda dot_git, _: extend(dot_git / "config", "[bad\n"),
}
COMMITS: dict[str, Callable[[Path, Path], object]] = {
    "branch": lambda dot_git, _: [replace_by_fifo(file) for file in (dot_git / "refs/heads").iterdir()],
    "object": lambda dot_git, _: replace_by_fifo(head_object(dot_git)),
    "alternates": lambda dot_git, _: (
        head_object(dot_git).unlink(),
        replace_by_fifo(dot_git / "objects/info/alternates"),
    ),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_SE_a_repository_that_git_cannot_read_is_reported_and_the_users_own_settings_apply(
    project: Path, pipe: Path, case: str
) -> None:
    SETTINGS[case](project / ".git", pipe)
    make(project, {"personal": "mine\n"})
    found = repository_at(project)
    assert found is not None and not found.is_readable
    assert set(walk_project(project).files) - {"one"} == {"a.py"}, "the user's own ignore file still applies"
    assert read_commit(project, ("a.py",)) == Commit()
    [finding] = [one for one in scan_project(project).report.findings if one.check == "git-not-read"]
    assert finding.where == str(project / ".git")


@pytest.mark.usefixtures("no_hurry")
@pytest.mark.parametrize("case", COMMITS)
def test_SE_a_commit_for_which_git_waits_is_left_out(
    project: Path, pipe: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    COMMITS[case](project / ".git", pipe)
    monkeypatch.setattr("remote.project.commit.DEADLINE_S", 0.1)
    assert read_commit(project, ("a.py",)) == Commit()
    found = repository_at(project)
    assert found is not None and found.is_readable


def test_SE_many_nested_repositories_without_an_answer_cost_less_than_two_deadlines(
    project: Path, pipe: Path, deadlines: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "bcde":
        make(project / name, {f"{name}.py": "b\n"})
        git(project / name, "init", "--quiet")
        SETTINGS["include"](project / name / ".git", pipe)
    SETTINGS["include"](project / ".git", pipe)
    for _ in range(2):
        assert set(walk_project(project).files) == {"a.py", *(f"{name}/{name}.py" for name in "bcde")}
    assert deadlines == [0.1 / 2**number for number in range(5)]


@pytest.mark.parametrize("named", ["{pipe}", "/dev/zero", "/dev/tty", "/proc/kmsg", "/dev/null", "{pipe}/x", "."])
def test_SE_a_special_file_as_the_personal_ignore_file_is_not_opened(
    project: Path, pipe: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    git(project, "config", "core.excludesFile", named.format(pipe=pipe))
    opened: list[str] = []
    really = os.open

    def watched(path: str, *more: int, **options: int) -> int:
        opened.append(os.fspath(path))
        return really(path, *more, **options)

    monkeypatch.setattr(os, "open", watched)
    assert set(walk_project(project).files) == {"a.py"}
    assert not {"/dev/zero", "/dev/tty", str(pipe)}.intersection(opened)


@pytest.mark.usefixtures("no_hurry")
def test_settings_of_included_files_are_still_read(project: Path) -> None:
    """Includes of regular, and missing files and of /dev/null, directly and under a condition."""
    extend(project / ".git/more", "[core]\n\tignoreCase = true\n")
    extend(project / ".git/config", "".join(map(INCLUDE.format, ("more", "missing", "/dev/null", "more"))))
    extend(project / ".git/config", '[includeIf "gitdir:/nowhere/"]\n\tpath = ../a.py\n')
    found = repository_at(project)
    assert found is not None and found.is_readable and found.ignores_case
    assert scan_project(project).report.findings == ()
    assert len(read_commit(project, ("a.py",)).id) == 40


def test_without_git_no_repository_is_reported(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extend(project / ".git/config", INCLUDE.format("more"))
    monkeypatch.setenv("PATH", str(project))
    assert scan_project(project).report.findings == ()
