"""A container on a host: created once, used by every agent, left running."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from remote.errors import ContainerUnavailable
from remote.link.address import Address
from remote.link.container import Container
from remote.link.reach import open_host
from remote.operations.jobs import take_survey
from remote.protocol.machine import Machine, OwnContainer
from remote.protocol.survey import SurveyRequest
from tests.lab.cards import write_nvidia_smi
from tests.lab.sshd import Sshd
from tests.remote.link.container_engine import (
    become_another_user,
    calls,
    engine,
    enter,
    home,
    name_of,
    state,
    the_call,
    titan,
    verbs,
    write_engine,
)

__all__ = ["engine", "home"]

UP_TO_NAME = "-d --name {name} --label halfstep.image={image} --label halfstep.workdir={work} "
ALWAYS = "--network host --uts host --security-opt label=disable --stop-signal TERM --stop-timeout 120 "


def machine_in(address: Address) -> Machine:
    """Return the machine as the survey of a host sees it."""
    host = open_host(address)
    try:
        return take_survey(host, SurveyRequest("project", "")).machine
    finally:
        host.close()


def test_the_container_is_created_once_and_used_by_every_agent(tmp_path: Path, engine: Path) -> None:
    server = Sshd(tmp_path / "titan", environment={"PATH": f"{engine.parent}:/usr/bin:/bin"}).start()
    address = replace(server.address(), container=Container("lab/torch:2.8"), workdir="~/half step")
    try:
        for _ in range(2):
            host = open_host(address)
            assert host.probe(["echo", "hi"]).stdout == b"hi\n"
            assert host.workdir == str(server.home / "half step")
            host.close()
    finally:
        server.close()
    assert verbs(engine).count("pull") == 1
    assert verbs(engine).count("run") == 1
    assert verbs(engine).count("exec") == 2


def test_docker_mounts_home_and_workdir_under_their_own_paths_as_you(home: Path, engine: Path) -> None:
    container = Container("lab/torch:2.8")
    enter(titan(container))
    run = the_call(engine, "run")
    work, name = home / "halfstep", name_of(container)
    assert UP_TO_NAME.format(name=name, image="lab/torch:2.8@sha256:d1", work=work) in run
    assert f"--user {os.getuid()}:{os.getgid()} {ALWAYS}" in run
    assert f"-e HOME={home} -e USER=" in run
    assert f"-v {home}:{home} -v {work}:{work} " in run
    assert " -v /dev/shm:/dev/shm " in run
    assert " --entrypoint /bin/sh lab/torch:2.8 -c " in run
    assert "--gpus" not in run


def test_the_settings_of_the_host_file_become_options_of_the_engine(home: Path, engine: Path) -> None:
    data = home / "data"
    data.mkdir()
    container = Container("torch", "docker", "8g", ("~/data", "/usr:/usr/host:ro"), gpus="all", user="10:20")
    enter(titan(container))
    run = the_call(engine, "run")
    assert " --gpus all --shm-size 8g " in run
    assert "-v /dev/shm:" not in run
    assert f" -v {data}:{data} -v /usr:/usr/host:ro " in run
    assert " --user 10:20 " in run
    assert Container("torch").name("~/halfstep") != container.name("~/halfstep")


@pytest.mark.root
def test_SE_the_container_of_another_user_of_the_same_engine_is_not_entered(
    home: Path, tmp_path: Path, engine: Path
) -> None:
    """Both use the default workdir. Whoever entered the other's container would act as its user, with their home."""
    enter(titan(Container("torch")))
    become_another_user(tmp_path)
    enter(titan(Container("torch")))
    entered = [call.split()[4] for call in calls(engine) if call.startswith("exec ")]
    assert verbs(engine).count("run") == 2
    assert entered[0] != entered[1]


@pytest.mark.parametrize(
    ("kind", "gpus", "card", "option"),
    [
        ("docker", "auto", False, ""),
        ("docker", "auto", True, "--gpus all"),
        ("docker", "none", True, ""),
        ("podman", "auto", True, "--device nvidia.com/gpu=all"),
        ("podman", "all", False, "--device nvidia.com/gpu=all"),
        ("apptainer", "auto", True, "--nv"),
        ("apptainer", "auto", False, ""),
    ],
)
def test_the_container_gets_the_cards_of_the_host(
    home: Path, tmp_path: Path, kind: str, gpus: str, card: bool, option: str
) -> None:
    engine = write_engine(tmp_path, kind)
    if card:
        write_nvidia_smi(engine.parent)
    enter(titan(Container("torch", gpus=gpus)))
    start = the_call(engine, "instance start" if kind == "apptainer" else "run")
    assert f" {option} " in start if option else not any(word in start for word in ("--gpus", "--device", "--nv"))


@pytest.mark.parametrize(
    ("info", "options"),
    [
        ("[name=seccomp,profile=builtin name=rootless]", "--user 0:0 "),
        ("[name=seccomp,profile=builtin name=userns]", " --userns host "),
    ],
)
def test_files_belong_to_you_whatever_users_the_docker_engine_maps(
    home: Path, engine: Path, info: str, options: str
) -> None:
    state(engine, "info").write_text(info)
    enter(titan(Container("torch")))
    assert options in the_call(engine, "run")


def test_the_survey_names_the_image_by_digest(home: Path, engine: Path) -> None:
    container = Container("torch")
    address = titan(container)
    found = OwnContainer("docker", name_of(container), "torch@sha256:d1")
    assert machine_in(address).own_container == found
    state(engine, "image").write_text("sha256:2d torch@sha256:d2\n")
    assert machine_in(address).own_container == replace(found, newer="torch@sha256:d2")
    assert verbs(engine).count("run") == 1


def test_an_image_without_a_registry_has_the_digest_of_its_content(home: Path, engine: Path) -> None:
    state(engine, "image").write_text("sha256:1d\n")
    own = machine_in(titan(Container("lab:1"))).own_container
    assert own is not None
    assert (own.image, own.newer) == ("sha256:1d", "")


def test_apptainer_runs_an_instance_of_a_pulled_file(home: Path, tmp_path: Path) -> None:
    engine = write_engine(tmp_path, "apptainer")
    container = Container("lab/torch:2.8", volumes=("/usr:/mnt/usr:ro",))
    name, work = name_of(container), home / "halfstep"
    for _ in range(2):
        machine = machine_in(titan(container))
    file = work / "containers" / f"{name}.sif"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert machine.own_container == OwnContainer("apptainer", name, f"sha256:{digest}")
    assert [call for call in calls(engine) if not call.startswith("exec")] == [
        f"instance list {name} ",
        f"pull --force {file}.part docker://lab/torch:2.8 ",
        f"instance start --cleanenv --bind {home}:{home} --bind {work}:{work} --bind /usr:/mnt/usr:ro {file} {name} ",
        f"instance list {name} ",
    ]
    assert all(f" instance://{name} " in call for call in calls(engine) if call.startswith("exec"))


def test_apptainer_takes_a_file_of_the_host(home: Path, tmp_path: Path) -> None:
    write_engine(tmp_path, "docker")
    write_engine(tmp_path, "apptainer")
    address = titan(Container("~/torch.sif"))
    host = open_host(address)
    try:
        with pytest.raises(ContainerUnavailable, match=r"torch\.sif does not exist"):
            host.probe(["true"])
        (home / "torch.sif").write_text("an image")
        own = machine_in(address).own_container
    finally:
        host.close()
    assert own is not None
    assert own.image == f"sha256:{hashlib.sha256(b'an image').hexdigest()}"


def test_a_container_that_was_stopped_is_started_again(home: Path, engine: Path) -> None:
    container = Container("torch")
    name = name_of(container)
    state(engine, name).write_text("false sha256:1d torch@sha256:d1\n")
    enter(titan(container))
    assert verbs(engine).count("start") == 1
    assert "run" not in verbs(engine)
