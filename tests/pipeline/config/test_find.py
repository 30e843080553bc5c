"""Where a project begins: what is typed in a folder of it is about the whole of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config.find import project_above
from pipeline.config.load import load_config
from pipeline.records.layout import project_here


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / "src" / "deep"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("marks", "project"),
    [
        ((), "project/src/deep"),
        (("project/configs",), "project"),
        (("project/.halfstep",), "project"),
        (("project/.halfstep", "project/src/configs"), "project"),
        (("project/.halfstep", "project/src/.halfstep"), "project/src"),
    ],
    ids=["none", "configs", "memory", "a package's own configs", "a project in a project"],
)
def test_a_folder_of_a_project_is_that_project(
    deep: Path, tmp_path: Path, marks: tuple[str, ...], project: str
) -> None:
    for mark in marks:
        (tmp_path / mark).mkdir(parents=True)
    assert project_above(deep) == project_here(deep) == tmp_path / project
    assert load_config("tiny", deep).root == tmp_path / project, "a shipped config makes no second project"


def test_a_home_is_no_project_whatever_lies_in_it(deep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "project"))
    (tmp_path / "project" / ".halfstep").mkdir()
    (tmp_path / "configs").mkdir()
    assert project_above(deep) == deep
