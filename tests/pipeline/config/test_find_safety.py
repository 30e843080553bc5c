"""Folders above the current one are used only if no other user could have put them there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.find import find_host, find_project, list_configs
from pipeline.config.load import load_config
from remote.errors import BadUsage
from remote.project.records_folder import create_folder
from tests.pipeline.config.config_files import GOOD, write

FINDERS: dict[str, Callable[[Path], object]] = {
    ".halfstep": find_project,
    "configs": list_configs,
    "configs/hosts": lambda cwd: find_host("gpu", cwd),
}


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """The user's own folder below a shared one."""
    folder = tmp_path / "shared/mine"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("mark", FINDERS)
@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o757])
def test_SE_nothing_is_found_in_a_parent_that_every_user_may_write_to(inside: Path, mark: str, mode: int) -> None:
    shared = inside.parent
    (shared / mark).mkdir(parents=True)
    shared.chmod(mode)
    with pytest.raises(BadUsage, match="every user") as caught:
        FINDERS[mark](inside)
    assert caught.value.where == str(shared) and f"cd {shared}" in (caught.value.hint or "")
    FINDERS[mark](shared)
    (inside / mark).mkdir(parents=True)
    FINDERS[mark](inside)
    shared.chmod(0o775)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("mark", FINDERS)
@pytest.mark.parametrize("given", ["", "mark", "link"])
def test_SE_nothing_is_found_in_a_parent_that_another_user_made(inside: Path, mark: str, given: str) -> None:
    shared = inside.parent
    top = mark.partition("/")[0]
    if given == "link":
        (inside / "target").mkdir()
        (shared / top).symlink_to(inside / "target")
    else:
        (shared / mark).mkdir(parents=True)
    os.chown(shared / (top if given else ""), 65534, 65534, follow_symlinks=False)
    with pytest.raises(BadUsage, match="another user"):
        FINDERS[mark](inside)


def test_SE_a_planted_config_is_not_loaded_from_a_folder_below(inside: Path) -> None:
    write(inside.parent, GOOD, "paper")
    (inside.parent / "configs").chmod(0o777)
    with pytest.raises(BadUsage, match="configs is not used"):
        load_config("paper", inside)
    (inside.parent / "configs").chmod(0o775)
    assert load_config("paper", inside).root == inside.parent


@pytest.mark.root
@pytest.mark.parametrize("words", [["list"], ["status"], ["export", "sky", "--config", "paper"]])
def test_SE_records_of_another_user_are_refused_in_the_current_folder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    write(tmp_path, "command: [python, train.py]\n", "paper")
    (tmp_path / "train.py").write_text("")
    records = tmp_path / ".halfstep"
    records.mkdir()
    os.chown(records, 65534, 65534)
    monkeypatch.chdir(tmp_path)
    assert run(words) == 2
    err = capsys.readouterr().err
    assert f"{records} belongs to another user" in err and f"mv {records} {records}-of-65534" in err
    assert list(records.iterdir()) == []


@pytest.mark.root
def test_root_uses_the_records_of_the_user_who_owns_the_project_as_in_a_container(tmp_path: Path) -> None:
    folder = tmp_path / ".halfstep" / "runs"
    folder.mkdir(parents=True)
    for path in (tmp_path, tmp_path / ".halfstep", folder):
        os.chown(path, 65534, 65534)
    assert find_project(tmp_path) == tmp_path
    create_folder(folder / "one")


@pytest.mark.root
@pytest.mark.parametrize("given", [".halfstep", ".halfstep/runs", ".halfstep/runs/one"])
def test_SE_no_folder_of_the_records_that_another_user_owns_is_opened(tmp_path: Path, given: str) -> None:
    folder = tmp_path / ".halfstep/runs/one"
    folder.mkdir(parents=True)
    os.chown(tmp_path / given, 65534, 65534)
    with pytest.raises(BadUsage, match="belongs to another user") as caught:
        create_folder(folder)
    assert caught.value.where == str(tmp_path / given)
