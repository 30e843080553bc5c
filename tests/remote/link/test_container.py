"""A container on a host: created once, used by every agent, left running."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from remote.errors import HostUnfit
from remote.link.container import ContainerStarter
from remote.link.reach import open_host
from remote.link.streams import LocalStarter
from tests.lab.cards import write_nvidia_smi
from tests.lab.sshd import Sshd
from tests.lab.wait import PATIENCE_S

# A minimal container engine: its state is a folder, and its commands run on this machine.
ENGINE = """#!/bin/sh
state=$(dirname "$0")/state
mkdir -p "$state"
printf '%s\\n' "$*" >> "$state/calls"
verb=$1; shift
case $verb in
  inspect) [ -f "$state/$3" ] && cat "$state/$3" ;;
  image) [ -f "$state/pulled" ] ;;
  pull) [ "$2" = broken ] && { echo "no such image" >&2; exit 1; }; touch "$state/pulled" ;;
  run) while [ "$1" != --name ]; do shift; done; echo true > "$state/$2" ;;
  start) echo true > "$state/$1" ;;
  version) [ ! -f "$state/down" ] || { printf 'Cannot connect to the daemon.\nIs it running?\n' >&2; exit 1; } ;;
  exec) shift 4; exec "$@" ;;
esac
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    path = tmp_path / "bin/docker"
    path.parent.mkdir()
    path.write_text(ENGINE)
    path.chmod(0o755)
    return path


def calls(engine: Path) -> list[str]:
    return (engine.parent / "state/calls").read_text().splitlines()


def server_with(engine: Path, root: Path) -> Sshd:
    return Sshd(root / "titan", environment={"PATH": f"{engine.parent}:/usr/bin:/bin"}).start()


@pytest.fixture
def titan(engine: Path, tmp_path: Path) -> Iterator[Sshd]:
    server = server_with(engine, tmp_path)
    yield server
    server.close()


def test_the_container_is_created_once_and_used_by_every_agent(titan: Sshd, engine: Path) -> None:
    address = replace(titan.address(), container="lab/torch:2.8", workdir="~/half step")
    for _ in range(2):
        host = open_host(address)
        assert host.probe(["echo", "hi"]).stdout == b"hi\n"
        assert host.workdir == str(titan.home / "half step")
        host.close()
    verbs = [call.split()[0] for call in calls(engine)]
    assert verbs.count("pull") == 1
    assert verbs.count("run") == 1
    assert verbs.count("exec") == 2
    (run,) = [call for call in calls(engine) if call.startswith("run")]
    assert f"-v {titan.home / 'half step'}:{titan.home / 'half step'}" in run
    assert f"--user {os.getuid()}:{os.getgid()}" in run
    assert "--gpus" not in run
    assert "lab/torch:2.8" in run


def test_the_container_gets_the_gpus_if_there_are_any(titan: Sshd, engine: Path) -> None:
    write_nvidia_smi(engine.parent)
    host = open_host(replace(titan.address(), container="torch"))
    assert host.probe(["true"]).ok
    host.close()
    assert any("--gpus all" in call for call in calls(engine) if call.startswith("run"))


def test_a_container_that_was_stopped_is_started_again(titan: Sshd, engine: Path) -> None:
    name = ContainerStarter(LocalStarter(), "torch", titan.address().workdir).name
    (engine.parent / "state").mkdir()
    (engine.parent / "state" / name).write_text("false\n")
    host = open_host(replace(titan.address(), container="torch"))
    assert host.probe(["true"]).ok
    host.close()
    assert [call.split()[0] for call in calls(engine)].count("start") == 1


def test_an_image_that_cannot_be_pulled_is_reported(titan: Sshd) -> None:
    host = open_host(replace(titan.address(), container="broken"))
    with pytest.raises(HostUnfit, match="no such image"):
        host.probe(["true"])
    host.close()


def test_an_engine_that_is_down_is_reported_with_its_message_after_one_try(titan: Sshd, engine: Path) -> None:
    (engine.parent / "state").mkdir()
    (engine.parent / "state" / "down").touch()
    host = open_host(replace(titan.address(), container="torch"))
    with pytest.raises(HostUnfit) as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.message == "titan: no container: Cannot connect to the daemon. Is it running?"
    assert caught.value.hint.startswith("docker run")
    verbs = [call.split()[0] for call in calls(engine)]
    assert verbs.count("version") == 1
    assert "pull" not in verbs


def test_a_host_without_an_engine_is_reported(tmp_path: Path) -> None:
    server = Sshd(tmp_path / "titan", environment={"PATH": str(tmp_path)}).start()
    host = open_host(replace(server.address(), container="torch"))
    try:
        with pytest.raises(HostUnfit, match="no docker or podman"):
            host.probe(["true"])
    finally:
        host.close()
        server.close()


def local_image() -> str:
    """A local image with a Python: HALFSTEP_TEST_IMAGE, or one that is found."""
    if shutil.which("docker") is None:
        return ""
    named = os.environ.get("HALFSTEP_TEST_IMAGE")
    if named:
        return named
    done = subprocess.run(
        ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return next((name for name in done.stdout.split() if name.startswith(("python:", "halfstep"))), "")


@pytest.mark.docker
def test_a_real_engine_runs_the_agent_inside_the_image_and_jobs_outlive_it(tmp_path: Path) -> None:
    image = local_image()
    if not image:
        pytest.skip("no container image with Python on this machine")
    home = tmp_path / "home"
    home.mkdir()
    server = Sshd(tmp_path / "titan").start()
    address = replace(server.address(), container=image)
    name = ContainerStarter(LocalStarter(), image, address.workdir).name
    try:
        host = open_host(address)
        assert host.probe(["cat", "/proc/self/cgroup"]).ok
        assert host.probe(["test", "-e", "/.dockerenv"]).ok
        host.write_bytes("left", b"here")
        host.run(["sh", "-c", "setsid sleep 300 >/dev/null 2>&1 </dev/null & echo $! > pid"], cwd=".")
        host.close()
        assert (server.home / "halfstep/left").read_bytes() == b"here"
        again = open_host(address)
        assert again.probe(["sh", "-c", 'kill -0 "$(cat "$0")"', f"{again.workdir}/pid"]).ok
        again.close()
    finally:
        subprocess.run(["docker", "rm", "-f", name], check=False, capture_output=True, timeout=60)
        server.close()
