"""A config or host file of a project that is a link out of the project is not read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pipeline.config.document import read_document
from pipeline.config.hosts import load_host
from pipeline.config.load import load_config
from remote.errors import BadUsage


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a folder of configs, and a private file beside the project."""
    (tmp_path / "project/configs/hosts").mkdir(parents=True)
    (tmp_path / "project/train.py").touch()
    (tmp_path / "private.yaml").write_text("command: [python, train.py]\nsalary: 1234\n")
    return tmp_path / "project"


@pytest.mark.parametrize("name", ["link", "configs/link.yaml", "hosts"])
def test_SE_a_config_that_is_a_link_out_of_the_project_is_not_shown(project: Path, name: str) -> None:
    (project / "configs/link.yaml").symlink_to(project.parent / "private.yaml")
    (project / "configs/hosts/link.yaml").symlink_to("../../../private.yaml")
    with pytest.raises(BadUsage, match="outside of the project") as caught:
        load_host("link", project) if name == "hosts" else load_config(name, project)
    assert "salary" not in str(caught.value) and "copy of the file" in caught.value.hint


def test_SE_a_link_out_of_the_work_tree_is_refused_for_a_file_in_any_folder(project: Path) -> None:
    (project / "mine.yaml").symlink_to(project.parent / "private.yaml")
    assert read_document(project / "mine.yaml").values["salary"] == 1234
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    with pytest.raises(BadUsage, match="outside of the project"):
        read_document(project / "mine.yaml")


def test_links_within_the_project_and_a_linked_folder_of_configs_are_read(project: Path) -> None:
    text = "project: .\ncommand: [python, train.py]\n"
    (project / "shared.yaml").write_text(text)
    (project / "configs/a.yaml").symlink_to("../shared.yaml")
    assert load_config("a", project).root == project
    (project / "configs").rename(project.parent / "elsewhere")
    (project / "configs").symlink_to(project.parent / "elsewhere")
    (project.parent / "elsewhere/b.yaml").write_text(text)
    assert load_config("b", project).config.command is not None
