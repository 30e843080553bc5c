"""The search for secrets finds each own file, and no folder that another test deletes ends it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.remote.jobs.own_files import own_files


def names_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path, _ in own_files(folder))


def test_each_file_is_found_except_those_of_other_tests(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/d", "pytest-of-you/e", "f"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "f")
    assert names_below(tmp_path) == ["a/b/c", "a/d", "f"]
    assert {content.decode() for _, content in own_files(tmp_path)} == {"a/b/c", "a/d", "f"}


def test_what_disappears_during_the_search_does_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/b", "c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    walk, kept = os.walk, tmp_path / "c"

    def deleting(place: Path) -> object:
        for found in walk(place):
            yield found
            shutil.rmtree(tmp_path / "a", ignore_errors=True)

    monkeypatch.setattr(os, "walk", deleting)
    assert [path for path, _ in own_files(tmp_path)] == [kept]
