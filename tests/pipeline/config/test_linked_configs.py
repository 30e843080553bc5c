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


def read_or_refuse(path: Path) -> dict[str, object]:
    """Return the values of the config, or {} if it is refused as a link out of its project."""
    try:
        return read_document(path).values
    except BadUsage as error:
        assert "outside of the project" in error.message
        return {}


@pytest.mark.parametrize("linked", [False, True], ids=["configs/", "configs/ is a link to cfg/"])
@pytest.mark.parametrize("name", ["link", "configs/link.yaml", "hosts"])
def test_SE_a_config_that_is_a_link_out_of_the_project_is_not_shown(project: Path, name: str, linked: bool) -> None:
    (project / "configs/link.yaml").symlink_to(project.parent / "private.yaml")
    (project / "configs/hosts/link.yaml").symlink_to("../../../private.yaml")
    if linked:
        (project / "configs").rename(project / "cfg")
        (project / "configs").symlink_to("cfg")
    with pytest.raises(BadUsage, match="outside of the project") as caught:
        load_host("link", project) if name == "hosts" else load_config(name, project)
    assert "salary" not in str(caught.value) and "copy of the file" in caught.value.hint


@pytest.mark.parametrize("repository", [False, True])
def test_SE_a_link_out_of_the_project_is_refused_for_a_file_in_any_folder(project: Path, repository: bool) -> None:
    (project / "mine.yaml").symlink_to(project.parent / "private.yaml")
    (project / "own.yaml").symlink_to("configs/own.yaml")
    (project / "configs/own.yaml").write_text("command: [python, train.py]\n")
    if repository:
        subprocess.run(["git", "init", "-q", str(project)], check=True)
    with pytest.raises(BadUsage, match="outside of the project"):
        read_document(project / "mine.yaml")
    assert "command" in read_document(project / "own.yaml").values


@pytest.mark.parametrize("repository", [False, True])
def test_SE_the_home_folder_is_not_the_project_of_a_config(
    project: Path, monkeypatch: pytest.MonkeyPatch, repository: bool
) -> None:
    if repository:
        subprocess.run(["git", "init", "-q", str(project.parent)], check=True)
    (project / "configs/link.yaml").symlink_to("../../private.yaml")
    assert repository == ("command" in read_or_refuse(project / "configs/link.yaml"))
    (project / "other").mkdir()
    (project / "other/link.yaml").symlink_to("../train.yaml")
    (project / "train.yaml").write_text("command: [python, train.py]\n")
    assert repository == ("command" in read_or_refuse(project / "other/link.yaml"))
    for home in (project.parent, project.parent / "project/home"):
        monkeypatch.setenv("HOME", str(home))
        assert not read_or_refuse(project / "configs/link.yaml")
        assert not read_or_refuse(project / "other/link.yaml")


def test_links_within_the_project_and_a_linked_folder_of_configs_are_read(project: Path) -> None:
    text = "project: .\ncommand: [python, train.py]\n"
    (project / "shared.yaml").write_text(text)
    (project / "configs/a.yaml").symlink_to("../shared.yaml")
    assert load_config("a", project).root == project
    (project / "configs").rename(project.parent / "elsewhere")
    (project / "configs").symlink_to(project.parent / "elsewhere")
    (project.parent / "elsewhere/b.yaml").write_text(text)
    assert load_config("b", project).config.command is not None


@pytest.mark.parametrize("name", ["configs/net.yaml", "configs/hosts/net.yaml", "net.yaml", "hosts/net.yaml"])
def test_SE_a_project_called_configs_links_no_config_to_the_folders_beside_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    clone = project / "configs"
    (clone / name).parent.mkdir(parents=True, exist_ok=True)
    (clone / name).symlink_to(project / "private.yaml")
    (project / "private.yaml").write_text("salary: 1234\n")
    for folder in (clone, (clone / name).parent):
        monkeypatch.chdir(folder)
        assert not read_or_refuse(clone / name)
        with pytest.raises(BadUsage, match="outside of the project"):
            read_document(Path((clone / name).name if folder != clone else name))


@pytest.mark.parametrize("name", ["net", "./configs/net.yaml", "hosts"])
def test_SE_a_clone_called_configs_links_no_config_to_the_folders_beside_it_if_the_user_works_above_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    clone = project / "configs"
    subprocess.run(["git", "init", "-q", str(clone)], check=True)
    (project / "private.yaml").write_text("salary: 1234\n")
    (clone / "net.yaml").symlink_to("../private.yaml")
    (clone / "hosts/net.yaml").symlink_to(project / "private.yaml")
    monkeypatch.chdir(project)
    with pytest.raises(BadUsage, match="outside of the project"):
        load_host("net", project) if name == "hosts" else load_config(name, project)


@pytest.mark.parametrize("folder", ["configs/clone", "configs/hosts/clone"])
def test_SE_a_project_in_a_folder_called_configs_links_no_config_out_of_it(project: Path, folder: str) -> None:
    clone = project / folder
    clone.mkdir()
    (project / "private.yaml").write_text("salary: 1234\n")
    (clone / "net.yaml").symlink_to(project / "private.yaml")
    assert not read_or_refuse(clone / "net.yaml")


def test_links_of_a_project_called_configs_to_its_own_files_are_read(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = project / "configs"
    (clone / "configs/hosts").mkdir(parents=True)
    (clone / "shared.yaml").write_text("command: [python, train.py]\n")
    (clone / "configs/net.yaml").symlink_to("../shared.yaml")
    (clone / "configs/hosts/net.yaml").symlink_to("../../shared.yaml")
    monkeypatch.chdir(clone)
    assert read_or_refuse(clone / "configs/net.yaml") and read_or_refuse(Path("configs/hosts/net.yaml"))


@pytest.mark.parametrize("repository", [False, True])
def test_SE_a_linked_folder_of_host_files_must_be_in_the_project(
    project: Path, repository: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "rig.yaml").write_text("host: rig.example\n")
    if repository:
        subprocess.run(["git", "init", "-q", str(elsewhere)], check=True)
    (project / "configs/hosts").rmdir()
    (project / "configs/hosts").symlink_to("../../elsewhere")
    for folder, name in ((project, "configs/hosts/rig.yaml"), (project / "configs", "hosts/rig.yaml")):
        monkeypatch.chdir(folder)
        assert not read_or_refuse(project / "configs/hosts/rig.yaml")
        assert not read_or_refuse(Path(name))
    elsewhere.rename(project / "shared")
    (project / "configs/hosts").unlink()
    (project / "configs/hosts").symlink_to("../shared")
    monkeypatch.chdir(project)
    assert read_or_refuse(project / "configs/hosts/rig.yaml")


@pytest.mark.parametrize("repository", [False, True])
@pytest.mark.parametrize("folder", ["other", "a/b", "configs/sub"])
def test_SE_no_host_file_is_read_through_a_linked_folder_beside_a_config(
    project: Path, folder: str, repository: bool
) -> None:
    elsewhere, config = project.parent / "elsewhere", project / folder / "t.yaml"
    elsewhere.mkdir()
    (elsewhere / "hosts.yml").write_text("host: rig.example\nsalary: 1234\n")
    config.parent.mkdir(parents=True)
    config.write_text("command: [python, train.py]\n")
    config.with_name("hosts").symlink_to(elsewhere)
    if repository:
        subprocess.run(["git", "init", "-q", str(project)], check=True)
    with pytest.raises(BadUsage, match="outside of the project") as caught:
        load_host("hosts", project, config_path=config)
    assert "salary" not in str(caught.value)


def test_host_files_in_a_linked_folder_of_the_repository_beside_a_config_are_read(project: Path) -> None:
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    for folder in ("shared", "other"):
        (project / folder).mkdir()
    (project / "shared/rig.yaml").write_text("host: rig.example\n")
    (project / "other/hosts").symlink_to("../shared")
    assert load_host("rig", project, config_path=project / "other/t.yaml").config.host == "rig.example"


def test_a_host_file_in_a_linked_folder_that_the_user_names_is_read(project: Path) -> None:
    (project.parent / "mine").mkdir()
    (project.parent / "mine/rig.yaml").write_text("host: rig.example\n")
    (project / "link").symlink_to("../mine")
    assert load_host("link/rig.yaml", project).config.host == "rig.example"
