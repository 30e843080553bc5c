"""The commit of a project, and the files that differ from it."""

from __future__ import annotations

import os
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from remote.project.commit import LARGEST, MOST_BYTES, Commit, read_commit
from tests.remote.project.git_tree import git, make, needs_git

pytestmark = needs_git
IDENTITY = ("-c", "user.name=me", "-c", "user.email=me@example.com")


def commit_all(folder: Path) -> str:
    git(folder, "add", "--all", "--force")
    git(folder, *IDENTITY, "commit", "--quiet", "-m", "first")
    shown = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
    return shown.stdout.strip()


def piped(folder: Path, text: str, *words: str) -> str:
    """What git prints for the text on its stdin."""
    done = subprocess.run(["git", *words], cwd=folder, input=text, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("inside", ["", "sub/project"], ids=["at the top", "in a folder"])
@pytest.mark.parametrize("format_", ["sha1", "sha256"])
def test_changed_and_new_files_differ_from_the_commit(tmp_path: Path, inside: str, format_: str) -> None:
    project = tmp_path / inside
    make(project, {"same.py": "a\n", "changed.py": "b\n", "crlf.py": "c\n", "gone.py": "d\n", "großes wort.py": "e\n"})
    subprocess.run(["git", "init", "--quiet", f"--object-format={format_}"], cwd=tmp_path, check=True)
    made = commit_all(tmp_path)
    (project / "changed.py").write_text("other\n")
    (project / "crlf.py").write_bytes(b"c\r\n")
    (project / "new.py").write_text("")
    paths = ("same.py", "changed.py", "crlf.py", "new.py", "großes wort.py")
    assert read_commit(project, paths) == Commit(made, ("changed.py", "new.py"))


def test_a_large_file_is_not_compared_because_git_may_store_a_pointer(tmp_path: Path) -> None:
    make(tmp_path, {"weights.bin": "version https://git-lfs.github.com/spec/v1\n"})
    git(tmp_path, "init", "--quiet")
    made = commit_all(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"0" * (LARGEST + 1))
    assert read_commit(tmp_path, ("weights.bin",)) == Commit(made)


def test_SE_a_new_file_is_not_read(tmp_path: Path) -> None:
    make(tmp_path, {"a.py": "a\n"})
    git(tmp_path, "init", "--quiet")
    made = commit_all(tmp_path)
    with (tmp_path / "new.bin").open("wb") as file:
        file.truncate(2**42)
    assert read_commit(tmp_path, ("a.py", "new.bin")) == Commit(made, ("new.bin",))


def test_SE_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    make(tmp_path, {"a.py": "a\n"})
    git(tmp_path, "init", "--quiet")
    made = commit_all(tmp_path)
    (tmp_path / "a.py").unlink()
    os.mkfifo(tmp_path / "a.py")
    assert read_commit(tmp_path, ("a.py",)) == Commit(made, ("a.py",))


def test_a_folder_without_a_commit_has_none(tmp_path: Path) -> None:
    assert read_commit(tmp_path, ("a.py",)) == Commit()
    git(tmp_path, "init", "--quiet")
    assert read_commit(tmp_path, ("a.py",)) == Commit()


def test_SE_a_commit_of_countless_files_does_not_fill_memory(tmp_path: Path) -> None:
    """Nine trees stand for 10^9 files."""
    git(tmp_path, "init", "--quiet")
    blob = piped(tmp_path, "a\n", "hash-object", "-w", "--stdin")
    tree = piped(tmp_path, "".join(f"100644 blob {blob}\tf{n}\n" for n in range(10)), "mktree")
    for _ in range(8):
        tree = piped(tmp_path, "".join(f"040000 tree {tree}\td{n}\n" for n in range(10)), "mktree")
    git(tmp_path, "update-ref", "HEAD", piped(tmp_path, "", *IDENTITY, "commit-tree", tree, "-m", "first"))
    tracemalloc.start()
    assert read_commit(tmp_path, ("a.py",)) == Commit()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MOST_BYTES


def test_SE_no_command_of_a_repositorys_settings_is_run(tmp_path: Path) -> None:
    """A project from a stranger may contain `.git/config` with filters, hooks and a monitor."""
    make(tmp_path, {"a.py": "a\n", ".gitattributes": "* filter=evil\n"})
    git(tmp_path, "init", "--quiet")
    made = commit_all(tmp_path)
    trace = tmp_path.parent / f"{tmp_path.name}-ran"
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process", "core.sshCommand", "core.pager"):
        git(tmp_path, "config", key, f"touch '{trace}'; cat")
    (tmp_path / "a.py").write_text("b\n")
    assert read_commit(tmp_path, ("a.py",)) == Commit(made, ("a.py",))
    assert not trace.exists()


def test_git_reads_objects_without_the_settings_of_the_repository_and_permits_no_transport_that_they_can_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {"a.py": "a\n"})
    git(tmp_path, "init", "--quiet")
    commit_all(tmp_path)
    permitted: list[str] = []
    read: list[Path] = []
    popen = subprocess.Popen

    def start(argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
        permitted.extend(filter(None, [(options.get("env") or {}).get("GIT_ALLOW_PROTOCOL")]))
        if "ls-tree" in argv:
            folder = Path(argv[1].removeprefix("--git-dir="))
            read.append(folder)
            assert (folder / "config").read_text() == "" and not (folder / "hooks").exists()
        return popen(argv, **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    assert read_commit(tmp_path, ["a.py"]).changed == ()
    assert [folder.exists() for folder in read] == [False], "a folder of its own, which is deleted"
    assert len(permitted) == len(set(permitted)) >= 2
    assert all(len(name) == 32 and name.isalnum() for name in permitted)


def test_a_repository_whose_objects_are_missing_runs_no_hook_and_no_alias(tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    for folder in (project, other):
        make(folder, {"a.py": "a\n"})
        git(folder, "init", "--quiet")
    commit_all(project)
    tree = piped(project, "", "rev-parse", "HEAD^{tree}")
    (project / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    ran = tmp_path / "ran"
    hook = project / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    settings = f"""[core]
    repositoryformatversion = 1
[extensions]
    partialClone = origin
[remote "origin"]
    url = none::x
    promisor = true
[alias]
    remote-none = "!touch {ran}"
"""
    with (project / ".git" / "config").open("a") as config:
        config.write(settings)
    assert read_commit(project, ["a.py"]) == Commit()
    assert not ran.exists()
