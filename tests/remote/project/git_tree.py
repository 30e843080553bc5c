"""Repositories to walk, and the files that git itself lists in them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

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
    """Return the existing files that git lists, in the repository and in each nested one."""
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
