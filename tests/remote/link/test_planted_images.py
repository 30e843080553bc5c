"""An Apptainer image in the workdir runs as you, so it is started only if nobody else can have written it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from remote.errors import ContainerUnavailable
from remote.link.container import Container
from remote.link.reach import open_host
from tests.remote.link.container_engine import (
    become_another_user,
    calls,
    enter,
    home,
    name_of,
    the_call,
    titan,
    verbs,
    write_engine,
)

__all__ = ["home"]
TORCH = Container("torch")
PLANTED = {
    "image": "containers/{name}.sif",
    "digest": "containers/{name}.sha256",
    "containers": "containers",
    "workdir": "",
}


@pytest.fixture
def apptainer(tmp_path: Path) -> Path:
    return write_engine(tmp_path, "apptainer")


def refusal() -> ContainerUnavailable:
    host = open_host(titan(TORCH))
    try:
        with pytest.raises(ContainerUnavailable) as caught:
            host.probe(["true"])
    finally:
        host.close()
    return caught.value


def planted(home: Path, what: str) -> Path:
    path = home / "halfstep" / PLANTED[what].format(name=name_of(TORCH))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    if "." in path.name:
        path.write_text("planted")
    else:
        path.mkdir(exist_ok=True)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_SE_an_image_that_others_may_write_is_not_started(home: Path, apptainer: Path, what: str, mode: int) -> None:
    path = planted(home, what)
    path.chmod(mode)
    error = refusal()
    assert error.message.rstrip("/") == f"titan: no container: {path} is writable by other users"
    assert error.hint.startswith("run `chmod go-w` on that path") and "instance" not in verbs_if_any(apptainer)
    path.chmod(0o755)
    enter(titan(TORCH))


def verbs_if_any(engine: Path) -> list[str]:
    return verbs(engine) if (engine.parent / "state/calls").exists() else []


@pytest.mark.parametrize("what", ["image", "digest", "containers"])
@pytest.mark.parametrize("dangling", [False, True])
def test_SE_a_link_in_place_of_an_image_is_not_followed(
    home: Path, tmp_path: Path, apptainer: Path, what: str, dangling: bool
) -> None:
    path, victim = planted(home, what), tmp_path / "victim"
    path.rmdir() if path.is_dir() else path.unlink()
    if not dangling:
        victim.mkdir() if what == "containers" else victim.write_text("mine")
    path.symlink_to(victim)
    assert f"{path} is a symbolic link" in refusal().message
    assert "instance" not in verbs_if_any(apptainer)
    assert victim.exists() != dangling and (not victim.is_file() or victim.read_text() == "mine")


def test_SE_an_image_of_another_user_is_not_started(home: Path, tmp_path: Path, apptainer: Path) -> None:
    planted(home, "workdir")
    become_another_user(tmp_path)
    assert "belongs to another user" in refusal().message
    assert "instance" not in verbs_if_any(apptainer)


@pytest.mark.parametrize("prepare", [lambda path: path.mkdir(), lambda path: None])
def test_an_own_workdir_that_is_a_link_is_used(
    home: Path, tmp_path: Path, apptainer: Path, prepare: Callable[[Path], None]
) -> None:
    scratch = (home / "halfstep").rename(tmp_path / "scratch")
    scratch.chmod(0o755)
    prepare(scratch / "containers")
    (home / "halfstep").symlink_to(scratch)
    enter(titan(TORCH))
    image = scratch / "containers" / f"{name_of(TORCH)}.sif"
    assert image.stat().st_mode & 0o077 == 0 and the_call(apptainer, "instance start")
    assert image.with_suffix(".sha256").stat().st_mode & 0o077 == 0
    assert any(call.startswith("exec ") for call in calls(apptainer))
