"""git is not started where it would wait for a FIFO or a device that a project contains or names."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.project.commit import Commit, read_commit
from remote.project.git_special import MOST_INCLUDES, may_wait_for_objects, may_wait_for_settings
from remote.project.included_files import walk_project
from remote.project.repository import repository_at
from remote.project.scan import scan_project
from tests.remote.project.git_tree import git, make, needs_git
from tests.remote.project.test_commit import commit_all

pytestmark = needs_git
INCLUDE = '[include]\n\tpath = "{}"\n'


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


def doubling(dot_git: Path, pipe: Path) -> None:
    """Nine files, each of which includes the next ten times: a thousand million inclusions."""
    extend(dot_git / "config", INCLUDE.format("0"))
    for number in range(9):
        extend(dot_git / str(number), INCLUDE.format(number + 1) * 10)
    extend(dot_git / "9", "")


SETTINGS: dict[str, Callable[[Path, Path], object]] = {
    "include": lambda dot_git, pipe: extend(dot_git / "config", INCLUDE.format(pipe)),
    "relative include": lambda dot_git, pipe: extend(dot_git / "config", INCLUDE.format("../../pipe")),
    "upper case": lambda dot_git, pipe: extend(dot_git / "config", f"[INCLUDE]\n\tPath={pipe}\n"),
    "continued line": lambda dot_git, pipe: extend(
        dot_git / "config", f"[include] path = {str(pipe)[:5]}\\\n{str(pipe)[5:]}"
    ),
    "linked": lambda dot_git, pipe: (
        (dot_git / "link").symlink_to(pipe),
        extend(dot_git / "config", INCLUDE.format("link")),
    ),
    "condition": lambda dot_git, pipe: extend(dot_git / "config", f'[includeIf "gitdir:/**"]\n\tpath = {pipe}\n'),
    "branch": lambda dot_git, pipe: extend(dot_git / "config", f'[includeIf "onbranch:**"]\n\tpath = {pipe}\n'),
    "chain": chain,
    "doubling": doubling,
    "installation": lambda dot_git, pipe: extend(dot_git / "config", INCLUDE.format(f"%(prefix)/..{pipe}")),
    "before a bad line": lambda dot_git, pipe: extend(dot_git / "config", INCLUDE.format(pipe) + "[bad\n"),
    "before an unknown account": lambda dot_git, pipe: extend(
        dot_git / "config", INCLUDE.format(pipe) + INCLUDE.format("~nobody-of-this-name/x")
    ),
    "device": lambda dot_git, _: extend(dot_git / "config", INCLUDE.format("/dev/zero")),
    "terminal": lambda dot_git, _: extend(dot_git / "config", INCLUDE.format("/dev/tty")),
    "kernel": lambda dot_git, _: extend(dot_git / "config", INCLUDE.format("/proc/kmsg")),
    "config": lambda dot_git, _: replace_by_fifo(dot_git / "config"),
    "config.worktree": lambda dot_git, _: replace_by_fifo(dot_git / "config.worktree"),
    "HEAD": lambda dot_git, _: replace_by_fifo(dot_git / "HEAD"),
    "packed-refs": lambda dot_git, _: replace_by_fifo(dot_git / "packed-refs"),
    "linked HEAD": lambda dot_git, pipe: ((dot_git / "HEAD").unlink(), (dot_git / "HEAD").symlink_to(pipe)),
    "branches": lambda dot_git, _: [replace_by_fifo(file) for file in (dot_git / "refs/heads").iterdir()],
    "ambiguous ref": lambda dot_git, _: replace_by_fifo(dot_git / "refs/tags/HEAD"),
}
OBJECTS: dict[str, Callable[[Path, Path], object]] = {
    "object": lambda dot_git, _: replace_by_fifo(head_object(dot_git)),
    "index of a pack": lambda dot_git, _: replace_by_fifo(dot_git / f"objects/pack/pack-{'0' * 40}.idx"),
    "alternates": lambda dot_git, _: replace_by_fifo(dot_git / "objects/info/alternates"),
    "alternate": alternate,
    "commit graph": lambda dot_git, _: replace_by_fifo(dot_git / "objects/info/commit-graph"),
    "quoted alternate": lambda dot_git, pipe: extend(dot_git / "objects/info/alternates", f'"{pipe}"\n'),
}


@pytest.fixture
def no_git_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make every start of git in the repository fail. git outside of it does not read the project's files."""

    def forbid(dot_git: Path) -> None:
        def check(event: str, argv: list[str]) -> None:
            assert str(dot_git) not in " ".join(argv), f"git was started: {argv}"

        started = subprocess.Popen

        class Checked(started):  # type: ignore[type-arg,valid-type,misc]
            def __init__(self, argv: list[str], **options: object) -> None:
                check("Popen", argv)
                super().__init__(argv, **options)

        monkeypatch.setattr(subprocess, "Popen", Checked)

    return forbid


@pytest.mark.parametrize("case", SETTINGS)
def test_SE_git_does_not_wait_for_a_file_of_the_settings(
    project: Path, pipe: Path, no_git_in: Callable[[Path], None], case: str
) -> None:
    SETTINGS[case](project / ".git", pipe)
    no_git_in(project / ".git")
    make(project, {"personal": "mine\n"})
    repository = repository_at(project)
    assert repository is not None and repository.may_wait
    assert set(walk_project(project).files) - {"one"} == {"a.py"}, "the user's own ignore file still applies"
    assert read_commit(project, ("a.py",)) == Commit()
    [finding] = [one for one in scan_project(project).report.findings if one.check == "git-not-read"]
    assert finding.where == str(project / ".git")


@pytest.mark.parametrize("case", OBJECTS)
def test_SE_git_does_not_wait_for_an_object(
    project: Path, pipe: Path, no_git_in: Callable[[Path], None], case: str
) -> None:
    OBJECTS[case](project / ".git", pipe)
    assert may_wait_for_objects(project / ".git")
    assert not may_wait_for_settings(project / ".git", project / ".git")
    no_git_in(project / ".git")
    assert read_commit(project, ("a.py",)) == Commit()


@pytest.mark.parametrize("case", ["include", "HEAD"])
def test_SE_git_does_not_wait_in_a_nested_repository(
    project: Path, pipe: Path, no_git_in: Callable[[Path], None], case: str
) -> None:
    make(project / "inner", {"b.py": "b\n"})
    git(project / "inner", "init", "--quiet")
    SETTINGS[case](project / "inner/.git", pipe)
    no_git_in(project / "inner/.git")
    assert set(walk_project(project).files) == {"a.py", "inner/b.py"}


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


def test_settings_of_included_files_are_still_read(project: Path) -> None:
    """Includes of regular, and missing files and of /dev/null, directly and under a condition."""
    extend(project / ".git/more", "[core]\n\tignoreCase = true\n")
    extend(project / ".git/config", "".join(map(INCLUDE.format, ("more", "missing", "/dev/null", "more"))))
    extend(project / ".git/config", '[includeIf "gitdir:/nowhere/"]\n\tpath = ../a.py\n')
    repository = repository_at(project)
    assert repository is not None and not repository.may_wait and repository.ignores_case
    assert scan_project(project).report.findings == ()
    assert len(read_commit(project, ("a.py",)).id) == 40


def test_without_git_no_repository_is_reported(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extend(project / ".git/config", INCLUDE.format("more"))
    monkeypatch.setenv("PATH", str(project))
    assert scan_project(project).report.findings == ()


@pytest.mark.parametrize("count", [MOST_INCLUDES - 5, MOST_INCLUDES + 5])
def test_the_number_of_included_files_is_limited(project: Path, count: int) -> None:
    extend(project / ".git/empty", "")
    extend(project / ".git/config", INCLUDE.format("empty") * count)
    assert may_wait_for_settings(project / ".git", project / ".git") is (count > MOST_INCLUDES)


def test_work_trees_submodules_and_alternates_of_git_are_not_special(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree"))
    git(tmp_path, "clone", "--quiet", "--shared", str(project), "shared")
    git(project, "pack-refs", "--all")
    git(project, "gc", "--quiet")
    for folder in (project, tmp_path / "tree", tmp_path / "shared"):
        repository = repository_at(folder)
        assert repository is not None and not repository.may_wait
        assert not may_wait_for_objects(repository.common_folder)
        assert len(read_commit(folder, ("a.py",)).id) == 40
