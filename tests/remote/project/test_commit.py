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


def test_the_only_permitted_transport_has_a_name_that_a_repository_cannot_guess(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {"a.py": "a\n"})
    git(tmp_path, "init", "--quiet")
    commit_all(tmp_path)
    permitted: list[str] = []
    popen = subprocess.Popen

    def start(argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
        permitted.extend(filter(None, [(options.get("env") or {}).get("GIT_ALLOW_PROTOCOL")]))
        return popen(argv, **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    assert read_commit(tmp_path, ["a.py"]).id
    assert len(permitted) == len(set(permitted)) >= 1
    assert all(len(name) == 32 and name.isalnum() for name in permitted)
