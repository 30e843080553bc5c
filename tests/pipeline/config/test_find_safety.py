"""Folders above the current one are used only if no other user could have put them there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.config.find import find_host, find_project, list_configs
from pipeline.config.load import load_config
from remote.errors import BadUsage
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
