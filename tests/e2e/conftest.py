"""A user with a small project."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.user import User
from tests.lab.mounts import why_no_mounts


@pytest.fixture
def user(tmp_path: Path) -> User:
    """A user whose project consists of one script and a note."""
    person = User(tmp_path / "project", tmp_path / "laptop")
    (person.project / "notes.md").write_text("what I want to try\n")
    (person.project / "look.py").write_text("print('nothing yet')\n")
    return person


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB."""
    if reason := why_no_mounts():
        pytest.skip(reason)
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
