"""Read the commit of a project, and find the files that differ from it."""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from remote.project.git import GitOverran, run_git
from remote.project.repository import Repository, find_repository
from remote.protocol.dataclass import dataclass
from remote.protocol.parts import replacing
from remote.protocol.regular import read_regular

DEADLINE_S = 10
SHA256_CONFIG = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n"
LARGEST = 2**20
"""The maximum size of a file that is compared. For larger files, a commit often contains only a Git LFS pointer."""
MOST_BYTES = 2**25
"""The maximum output of git. With a few nested trees, a hostile commit can list billions of files."""


@dataclass(frozen=True)
class Commit:
    """The checked-out commit. `id` is "" if there is no commit.

    `changed` contains the files that are new or differ from it.
    """

    id: str = ""
    changed: tuple[str, ...] = ()


def read_commit(project: Path, paths: Iterable[str]) -> Commit:
    """Return the commit. `changed` contains the paths of `paths` (relative to the project) that differ from the commit.

    The result is empty without a repository, or if git cannot list the files of the commit within DEADLINE_S.
    """
    repository = find_repository(project)
    if repository is None or not repository.is_readable:
        return Commit()
    head = (_git(repository.git_folder, {}, "rev-parse", "--verify", "--quiet", "HEAD") or "").strip()
    listed = _list_files(repository, head) if head else None
    if listed is None:
        return Commit()
    blobs = {name: words.split()[2] for words, _, name in (row.partition("\t") for row in listed.split("\0")) if name}
    prefix = project.relative_to(repository.work_tree).as_posix()
    names = {path: path if prefix == "." else f"{prefix}/{path}" for path in paths}
    return Commit(
        head, tuple(sorted(path for path, name in names.items() if _differs(project / path, blobs.get(name))))
    )


def _differs(file: Path, blob: str | None) -> bool:
    """Return True if the file differs from the blob by more than line endings."""
    if blob is None:
        return True
    try:
        if file.stat().st_size > LARGEST:
            return False
        content = os.fsencode(file.readlink()) if file.is_symlink() else read_regular(file, LARGEST)
    except OSError:
        return True
    return blob not in (_blob(content, blob), _blob(content.replace(b"\r\n", b"\n"), blob))


def _blob(content: bytes, like: str) -> str:
    """Return git's blob id for `content`, computed with the hash algorithm of the id `like`."""
    hashed = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return hashed(b"blob %d\0%b" % (len(content), content)).hexdigest()


def _list_files(repository: Repository, commit: str) -> str | None:
    """Return the output of `git ls-tree` for all files of the commit, or None.

    An unpacked repository can have settings and hooks that run commands when an object is missing. git therefore reads
    its objects through an empty repository without settings.
    """
    with tempfile.TemporaryDirectory(prefix="halfstep-git-") as name:
        empty = Path(name)
        (empty / "refs").mkdir()
        for file, text in (("HEAD", "ref: refs/heads/none\n"), ("config", SHA256_CONFIG if len(commit) == 64 else "")):
            with replacing(str(empty / file)) as opened:
                opened.write(text.encode())
        objects = {"GIT_OBJECT_DIRECTORY": str(repository.common_folder / "objects")}
        return _git(empty, objects, "ls-tree", "-r", "-z", "--full-tree", commit)


def _git(git_folder: Path, variables: Mapping[str, str], *words: str) -> str | None:
    """Return the output of git, or None if it fails, exceeds DEADLINE_S or prints more than MOST_BYTES."""
    isolated = {
        "GIT_NO_LAZY_FETCH": "1",
        # No transport has this name. A fixed name could be that of an alias, which older versions of git run.
        "GIT_ALLOW_PROTOCOL": secrets.token_hex(16),
        "GIT_OPTIONAL_LOCKS": "0",
    }
    try:
        status, printed = run_git(git_folder, words, DEADLINE_S, MOST_BYTES, isolated | {**variables})
    except (OSError, GitOverran):
        return None
    return printed if status == 0 else None
