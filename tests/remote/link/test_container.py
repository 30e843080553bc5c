"""A container on a host: created once, used by every agent, left running."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from remote.errors import ContainerUnavailable
from remote.link.address import Address
from remote.link.container import Container, no_container
from remote.link.reach import open_host
from remote.operations.jobs import take_survey
from remote.protocol.machine import Machine, OwnContainer
from remote.protocol.survey import SurveyRequest
from tests.lab.cards import write_nvidia_smi
from tests.lab.sshd import Sshd

# Minimal container engines: their state is a folder, and their commands run on this machine.
RECORD = """#!/bin/sh
state=$(dirname "$0")/state
mkdir -p "$state"
printf '%s\\n' "$(echo "$*" | tr '\\n' ' ')" >> "$state/calls"
verb=$1
shift
"""
ENGINE = (
    RECORD
    + """
case $verb in
  --version) basename "$0" ;;
  inspect)
    [ -f "$state/$3" ] || exit 1
    case $2 in *Labels*) cat "$state/$3" ;; *) cut -d" " -f1 "$state/$3" ;; esac
    ;;
  image) cat "$state/image" 2>/dev/null ;;
  pull)
    [ "$2" = broken ] && { echo "no such image" >&2; exit 1; }
    echo "sha256:1d $2@sha256:d1" > "$state/image"
    ;;
  run)
    [ -f "$state/refused" ] && { cat "$state/refused" >&2; exit 125; }
    while [ "$1" != --name ]; do shift; done
    echo "true sha256:1d ${4#*=}" > "$state/$2"
    ;;
  start) sed -i s/false/true/ "$state/$1" ;;
  rm) rm -f "$state/$2" ;;
  info) cat "$state/info" 2>/dev/null ;;
  version) [ ! -f "$state/down" ] || { cat "$state/down" >&2; exit 1; } ;;
  exec) shift 2; export "$1"; shift 2; exec "$@" ;;
esac
"""
)
APPTAINER = (
    RECORD
    + """
case $verb in
  instance)
    case $1 in
      list) [ ! -f "$state/$2" ] || echo "$2  4711  -  image.sif" ;;
      start) while [ $# -gt 1 ]; do shift; done; touch "$state/$1" ;;
    esac
    ;;
  pull) echo an image > "$2" ;;
  exec) export "${5#*,}"; shift 6; exec "$@" ;;
esac
"""
)
PROGRAMS = "sh cat sed cut id mkdir sleep tr grep sha256sum basename dirname touch mv rm stat readlink getent"
UP_TO_NAME = "-d --name {name} --label halfstep.image={image} --label halfstep.workdir={work} "
ALWAYS = "--network host --uts host --security-opt label=disable --stop-signal TERM --stop-timeout 120 "


def tools(folder: Path) -> Path:
    """Return a folder for PATH without this machine's own engines and cards."""
    found = folder / "tools"
    if not found.exists():
        found.mkdir()
        for name in PROGRAMS.split():
            (found / name).symlink_to(Path(shutil.which(name) or "/missing").resolve())
        (found / "python3").symlink_to(Path(sys.executable).resolve())
    return found


def write_engine(folder: Path, kind: str) -> Path:
    path = folder / "bin" / kind
    path.parent.mkdir(exist_ok=True)
    path.write_text(APPTAINER if kind == "apptainer" else ENGINE)
    path.chmod(0o755)
    (path.parent / "state").mkdir(exist_ok=True)
    return path


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path, "docker")


def state(engine: Path, name: str) -> Path:
    return engine.parent / "state" / name


def calls(engine: Path) -> list[str]:
    return state(engine, "calls").read_text().splitlines()


def the_call(engine: Path, verb: str) -> str:
    (call,) = [call for call in calls(engine) if call.startswith(f"{verb} ")]
    return call


def verbs(engine: Path) -> list[str]:
    return [call.split()[0] for call in calls(engine)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder on the host, which is this machine with the engines in `bin`."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{tools(tmp_path)}")
    return home


def titan(container: Container, workdir: str = "~/halfstep") -> Address:
    return Address("titan", "local", container=container, workdir=workdir)


def name_of(container: Container) -> str:
    return f"{container.name('~/halfstep')}-{os.getuid()}"


def enter(address: Address) -> None:
    """Start an agent in the container."""
    host = open_host(address)
    assert host.greeting
    host.close()


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
    assert "/dev/shm" not in run
    assert f" -v {data}:{data} -v /usr:/usr/host:ro " in run
    assert " --user 10:20 " in run
    assert Container("torch").name("~/halfstep") != container.name("~/halfstep")


def become_another_user(folder: Path) -> None:
    """Let `id -u` print 4242."""
    program = tools(folder) / "id"
    program.unlink()
    real = shutil.which("id", path="/usr/bin:/bin")
    program.write_text(f'#!/bin/sh\n[ "$*" = -u ] && echo 4242 || exec {real} "$@"\n')
    program.chmod(0o755)


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


@pytest.mark.parametrize(
    ("file", "output", "message", "hint"),
    [
        (
            "down",
            "Cannot connect to the Docker daemon at unix:///run/docker.sock.\nIs the docker daemon running?\n",
            "Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?",
            "sudo systemctl start docker",
        ),
        (
            "down",
            "permission denied while trying to connect to the Docker daemon socket at unix:///run/docker.sock\n",
            "permission denied while trying to connect to the Docker daemon socket at unix:///run/docker.sock",
            'sudo usermod -aG docker "$USER", then log in again',
        ),
        (
            "refused",
            'docker: Error response: could not select device driver "" with capabilities: [[gpu]].\n',
            'docker: Error response: could not select device driver "" with capabilities: [[gpu]].',
            "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
        ),
        ("refused", "exec /bin/sh: not found\n", "exec /bin/sh: not found", "docker run --rm torch true"),
    ],
)
def test_an_engine_that_refuses_is_reported_with_the_command_that_helps(
    home: Path, engine: Path, file: str, output: str, message: str, hint: str
) -> None:
    state(engine, file).write_text(output)
    host = open_host(titan(Container("torch")))
    with pytest.raises(ContainerUnavailable) as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.message == f"titan: no container: {message}"
    assert caught.value.hint == f"{hint}   (on titan)"
    assert verbs(engine).count("version") == 1
    assert "exec" not in verbs(engine)


@pytest.mark.parametrize(
    ("container", "message", "hint"),
    [
        (Container("broken"), "no such image", "docker pull broken   (on titan)"),
        (Container("torch", volumes=("/nowhere",)), "/nowhere does not exist", "correct `container.volumes`"),
        (Container("torch", engine="podman"), "no podman on PATH", "sudo apt-get install podman   (on titan)"),
    ],
)
def test_an_image_a_volume_or_an_engine_that_is_missing_is_reported(
    home: Path, engine: Path, container: Container, message: str, hint: str
) -> None:
    host = open_host(titan(container))
    with pytest.raises(ContainerUnavailable, match=message) as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.hint.startswith(hint)


def test_a_host_without_an_engine_is_reported(home: Path) -> None:
    host = open_host(titan(Container("torch")))
    try:
        with pytest.raises(ContainerUnavailable, match="no docker, podman or apptainer on PATH"):
            host.probe(["true"])
    finally:
        host.close()


@pytest.mark.parametrize(
    ("image", "word"),
    [
        ("lab/torch:2.8", "lab/torch:2.8"),
        ("~/images/torch.sif", "~/images/torch.sif"),
        ("~/a b;id.sif", "~/'a b;id.sif'"),
        ("/a$(id).sif", "'/a$(id).sif'"),
    ],
)
def test_SE_the_image_name_is_quoted_as_one_word_in_hints(image: str, word: str) -> None:
    problem = no_container("no container (start apptainer): it failed", image, "titan")
    assert problem is not None and problem.hint == f"apptainer exec {word} true   (on titan)"
