"""Which file a name means, and where a project begins, also from one of its subfolders."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config.find import find_project, list_configs
from pipeline.config.load import load_config
from remote.errors import HalfstepError
from tests.pipeline.config.config_files import GOOD, problem_text, write


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
def test_from_a_subfolder_the_project_itself_is_found(
    deep: Path, tmp_path: Path, marks: tuple[str, ...], project: str
) -> None:
    for mark in marks:
        (tmp_path / mark).mkdir(parents=True)
    assert find_project(deep) == find_project(deep) == tmp_path / project
    assert load_config("tiny", deep).root == tmp_path / project, "a shipped config makes no second project"


def test_a_home_folder_is_never_a_project(deep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "project"))
    (tmp_path / "project" / ".halfstep").mkdir()
    (tmp_path / "configs").mkdir()
    assert find_project(deep) == deep


def test_a_misspelt_name_is_reported_with_the_nearest_one(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "paper_r65")
    with pytest.raises(HalfstepError) as caught:
        load_config("paper_r6", tmp_path)
    assert caught.value.instead == ("paper_r6", "paper_r65")


def test_the_projects_config_comes_before_the_shipped_one(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "train: {epochs: 7}\n", "tiny")
    assert load_config("tiny", tmp_path).config.train.epochs == 7


def test_a_config_that_is_a_folder_or_a_broken_link_is_ignored(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "configs" / "folder.yaml").mkdir()
    (tmp_path / "configs" / "gone.yaml").symlink_to("nowhere")
    (tmp_path / "configs" / "loop.yaml").symlink_to("loop.yaml")
    assert [name for name, path in list_configs(tmp_path).items() if tmp_path in path.parents] == ["mine"]
    assert "there is no config" in problem_text(tmp_path, "folder")
