"""A user with a small project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.user import User


@pytest.fixture
def user(tmp_path: Path) -> User:
    """Somebody whose project is one script and a note."""
    person = User(tmp_path / "project", tmp_path / "laptop")
    (person.project / "notes.md").write_text("what I want to try\n")
    (person.project / "look.py").write_text("print('nothing yet')\n")
    return person
