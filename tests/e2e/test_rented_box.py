"""A rented box: root in a container, no systemd, no sftp, no sudo, a banner, nothing but Python, no host file."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from tests.e2e.user import QUICK, User
from tests.lab.bare_box import BANNER, BareBox
from tests.lab.cards import A100, T4, Card, write_nvidia_smi
from tests.lab.mounts import why_no_mounts
from tests.lab.package_index import TORCH, slow_index, wheel
from tests.lab.sshd import Sshd, children, have_sshd, login_name

STAGES = ("sync", "environment", "fix", "verify", "train", "logs")
TRAIN = "import torch\n\ndef train(): ...\n\nif __name__ == '__main__':\n    train()\n"
pytestmark = [pytest.mark.ssh, pytest.mark.root]
StartBox = Callable[..., Sshd]


@pytest.fixture
def start_box(tmp_path: Path, user: User) -> Iterator[StartBox]:
    """Starts a box with keyword arguments (see BareBox); the user can log in to it without a prompt."""
    if reason := why_no_mounts():
        pytest.skip(reason)
    if not have_sshd():
        pytest.skip("no OpenSSH server on this machine")
    started: list[Sshd] = []

    def start(**options: object) -> Sshd:
        server = BareBox(tmp_path / "box", **options).start()  # type: ignore[arg-type]
        started.append(server)
        invite(user, server)
        return server

    yield start
    for server in started:
        BareBox.close(server)


def invite(user: User, *servers: Sshd) -> None:
    """Authorize the user's key on the servers, and add their host keys to the user's known_hosts."""
    folder = user.home / ".ssh"
    folder.mkdir(mode=0o700)
    shutil.copy(servers[0].user_key, folder / "id_ed25519")
    (folder / "known_hosts").write_text("".join(server.known_hosts.read_text() for server in servers))
    for server in servers:
        (server.root / "authorized_keys").write_text(Path(f"{servers[0].user_key}.pub").read_text())


def console_command(server: Sshd) -> str:
    return f"ssh root@{server.listen} -p {server.port} -i ~/.ssh/id_ed25519 -L 8080:localhost:8080"


def test_another_box_gets_a_host_file_and_the_config_stays_as_it_is(user: User) -> None:
    config = user.project / "configs" / "mine.yaml"
    config.parent.mkdir()
    config.write_text("project: .\ncommand: [python, look.py]   # edited by hand\n")
    before = config.read_text()
    for name, port in (("first", 4022), ("second", 4023)):
        result = user.run_pipeline("init", f"root@box.invalid:{port}", "--host", name, "--config", "mine")
        assert result.code == 0 and "kept configs/mine.yaml" in result.out, result.err
        assert load_host(name, user.project).config.port == port
    again = user.run_pipeline("init", "root@box.invalid:4024", "--host", "second", "--config", "mine")
    assert (again.code, load_host("second", user.project).config.port) == (2, 4023)
    assert config.read_text() == before


@pytest.mark.parametrize(
    ("card", "driver", "build"),
    [
        (Card("Tesla P100-PCIE-16GB", "6.0", 16384), "560.35.03", "torch==2.13.* (cu126)"),
        (T4, "550.54.15", "torch==2.13.* (cu129)"),
        (A100, "580.65.06", "torch==2.13.* (cu132)"),
    ],
    ids=["P100", "T4", "A100"],
)
def test_the_torch_build_is_one_that_the_card_of_the_box_and_its_driver_can_run(
    user: User, start_box: StartBox, tmp_path: Path, card: Card, driver: str, build: str
) -> None:
    write_nvidia_smi(tmp_path / "box" / "layer" / "usr" / "local" / "bin", [card], driver=driver)
    server = start_box()
    result = user.run_pipeline("plan", "--host", f"root@{server.listen}:{server.port}", "--config", "tiny")
    assert f"create venv on the host with {build}" in result.out, result.err


def cut_connections(server: Sshd) -> None:
    """End every session of the box. Its sshd is a child of the process that entered the namespaces."""
    assert server.process is not None
    for listener in children(server.process.pid):
        for session in children(listener):
            os.kill(session, signal.SIGKILL)


def test_a_box_is_checked_by_its_address_alone(user: User, start_box: StartBox) -> None:
    server = start_box()
    result = user.run_pipeline("hosts", "check", f"root@{server.listen}:{server.port}")
    assert result.code == 0, result.out + result.err
    assert "no torch" in result.out and "/workspace is a volume" in result.out
    assert BANNER.strip() not in result.out + result.err
    assert "subsystem request" not in server.log, "sftp was asked for"


def test_init_writes_the_files_that_the_box_needs_from_the_command_of_its_console(
    user: User, start_box: StartBox
) -> None:
    server = start_box()
    (user.project / "look.py").write_text(TRAIN)
    (user.project / "requirements.txt").write_text("torch\n")
    words = ("init", console_command(server), "--host", "box", "--config", "mine", "--script", "look.py")
    result = user.run_pipeline(*words)
    assert result.code == 0, result.out + result.err
    assert "-L 8080:localhost:8080" in result.out and "no torch" in result.out
    assert "environment: create" in (user.project / "configs" / "mine.yaml").read_text()
    config = load_host("box", user.project).config
    assert (config.port, config.user, config.identity_file) == (server.port, "root", "~/.ssh/id_ed25519")
    assert (config.workdir, config.env) == ("/workspace/halfstep", {"HF_HOME": "/workspace/huggingface"})
    checked = user.run_pipeline("hosts", "check", "box")
    assert checked.code == 0 and "/workspace/halfstep: " in checked.out and "is a volume" not in checked.out
    assert user.run_pipeline(*words).code == 2, "existing files are not overwritten"


def test_init_writes_the_files_of_a_box_that_cannot_be_reached(user: User) -> None:
    (user.project / "look.py").write_text(TRAIN)
    result = user.run_pipeline("init", "root@box.invalid:4022", "--config", "mine", "--script", "look.py")
    assert result.code == 0, result.err
    assert "root@box.invalid:4022 could not be queried" in result.out
    config = load_host("box.invalid", user.project).config
    assert (config.host, config.port, config.user, config.workdir) == ("box.invalid", 4022, "root", "~/halfstep")
    # `init` wrote the user's own answers, so the file that sets another port for an address needs no confirmation.
    assert user.run_pipeline("hosts", "check", "box.invalid").code == 10


def test_a_gateway_that_offers_only_terminals_is_named_and_the_hint_says_what_to_use(
    user: User, start_sshd: Callable[..., Sshd]
) -> None:
    """The SSH proxy of RunPod runs no commands."""
    says = "Error: Your SSH client doesn't support PTY"
    server = start_sshd(lines=[f"""ForceCommand sh -c "echo \\"{says}\\"; exit 1" """])
    invite(user, server)
    result = user.run_pipeline(
        "hosts", "check", f"ssh {login_name()}@{server.listen} -p {server.port} -i ~/.ssh/id_ed25519"
    )
    assert result.code == 20, result.out + result.err
    assert says in result.out and "SSH over exposed TCP" in result.out + result.err


def test_a_lab_machine_is_reached_through_the_gateway_of_an_ssh_command(
    user: User, start_sshd: Callable[..., Sshd]
) -> None:
    gateway, inner = start_sshd("gateway"), start_sshd("inner")
    invite(user, gateway, inner)
    me = login_name()
    command = f"ssh -J {me}@{gateway.listen}:{gateway.port} {me}@{inner.listen} -p {inner.port}"
    result = user.run_pipeline("hosts", "check", command)
    assert f"through {me}@{gateway.listen}:{gateway.port}" in result.out, result.out + result.err
    assert "Accepted publickey" in gateway.log and "Accepted publickey" in inner.log


def test_the_torch_of_an_image_is_found_outside_the_path(user: User, start_box: StartBox, tmp_path: Path) -> None:
    """As in the images of Vast.ai, whose python3 on the PATH of an SSH command is another one."""
    venv = tmp_path / "box" / "layer" / "venv" / "main"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
    (packages,) = venv.glob("lib/python3*/site-packages")
    (packages / "torch").mkdir()
    (packages / "torch" / "version.py").write_text("__version__ = '2.13.1'\n")
    server = start_box()
    result = user.run_pipeline("hosts", "check", f"root@{server.listen}:{server.port}")
    assert re.search(r"/venv/main/bin/python3: Python 3\.\d+\.\d+, torch 2\.13\.1", result.out), result.out


def test_the_environment_of_a_box_is_made_in_the_project_and_resumed_after_a_cut(
    user: User, start_box: StartBox, tmp_path: Path
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel(wheels, "torch", "2.13.1", TORCH)
    wheel(wheels, "speechkit", "1.2", "answer = 42\n")
    server = start_box()
    (user.project / "requirements.txt").write_text("speechkit\n")
    (user.project / "configs").mkdir()
    with slow_index(wheels, "speechkit-1.2-py3-none-any.whl") as index:
        (user.project / "configs" / "mine.yaml").write_text(
            "project: .\ncommand: [python, look.py]\n"
            f"fixers: {{environment: {{find_links: '{index.url}', no_index: true}}}}\n"
        )
        words = ("run", "--host", console_command(server), "--config", "mine", "--until", "environment")
        first = user.start_pipeline(*words)
        assert index.asked.wait(120), "pip never asked for the package"
        cut_connections(server)
        out, err = first.communicate(timeout=120)
        assert first.returncode not in (0, 70), (out + err).decode()
        index.gate.set()
        second = user.run_pipeline(*words)
    assert second.code == 0, second.out + second.err
    assert "torch 2.13.1" in second.out
    assert "resuming the unfinished installation" in second.out
    assert "nothing to do" in user.run_pipeline(*words).out


@pytest.mark.train
@pytest.mark.timeout(1800)
def test_tiny_trains_on_a_box_with_nothing_but_python_and_has_nothing_to_do_the_second_time(
    user: User, start_box: StartBox
) -> None:
    constraints = user.home / "constraints.txt"
    constraints.parent.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).parents[2] / "constraints.txt", constraints)
    server = start_box(environment={"PIP_CONSTRAINT": str(constraints)})
    words = ("--host", f"root@{server.listen}:{server.port}", "--config", "tiny", *QUICK)
    first = user.run_pipeline("run", *words, "--json", patience_s=1700)
    assert first.code == 0, first.err + first.out
    assert first.states == dict.fromkeys(STAGES, "done")
    second = user.run_pipeline("run", *words, "--json")
    assert (second.code, second.states) == (0, dict.fromkeys(STAGES, "skipped")), second.err + second.out
    status = user.run_pipeline("status", "--json")
    assert status.json["job"]["state"] == "succeeded", "the run is found again without a host file"
