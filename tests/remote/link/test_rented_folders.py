"""Folders that everybody may write to are used by root in a container in which nobody else can act."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from remote.errors import ConnectionLost, HostUnfit
from remote.link.agent import AgentHost
from remote.link.container import Container, ContainerStarter
from remote.link.streams import LocalStarter, ProcessStream
from tests.lab.container_root import ContainerRoot
from tests.lab.mounts import why_no_mounts
from tests.remote.link.container_engine import write_engine

pytestmark = pytest.mark.root
UBUNTU = "ubuntu:x:1000:1000:Ubuntu:{home}:/bin/bash\n"
Rented = Callable[..., tuple[ContainerRoot, Path]]


@pytest.fixture
def rented(tmp_path: Path) -> Rented:
    """Return a container with keyword arguments (see ContainerRoot), and a volume in it with mode 0777."""
    if reason := why_no_mounts():
        pytest.skip(reason)
    volume = tmp_path / "workspace"
    volume.mkdir()
    volume.chmod(0o777)

    def enter(**options: object) -> tuple[ContainerRoot, Path]:
        return ContainerRoot(tmp_path, **options), volume  # type: ignore[arg-type]

    return enter


ALONE = {
    "overlay": {},
    "a mark": {"init": "init", "mark": True},
    "a locked account": {"accounts": UBUNTU, "shadow": "ubuntu:!:1::::::\n"},
    "accounts without a shell": {"accounts": UBUNTU.replace("/bin/bash", "/usr/sbin/nologin")},
    "no nsswitch.conf": {"names": ""},
    "no sources of accounts": {"names": "# passwd: sss\nhosts: files dns\n"},
    "compat": {"names": "group: files ldap\n passwd :\tcompat systemd # sss\n"},
    "system accounts": {"accounts": "sshd:x:104:65534::/run/sshd:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"},
}
NOT_ALONE = {
    "not a container": {"init": "init"},
    "systemd": {"init": "systemd"},
    "a process": {"visitor": True},
    "a password": {"accounts": UBUNTU, "shadow": "ubuntu:$y$j9T$x:1::::::\n"},
    "no password needed": {"accounts": UBUNTU, "shadow": "ubuntu::1::::::\n"},
    "no row in shadow": {"accounts": UBUNTU},
    "a key": {"accounts": UBUNTU, "shadow": "ubuntu:!:1::::::\n"},
    "sssd": {"names": "passwd: files systemd sss\n"},
    "ldap": {"names": "hosts: files\npasswd:ldap [NOTFOUND=return] files\n"},
    "NIS": {"names": "passwd: compat\n", "accounts": "+::::::\n"},
}


@dataclass(frozen=True)
class Within(LocalStarter):
    """Starts processes on a machine with these variables."""

    machine: ContainerRoot
    variables: tuple[str, ...]

    def start(self, argv: Sequence[str]) -> ProcessStream:
        return self.machine.start(("env", *self.variables, *argv))


def options_for(case: dict[str, object], key: bool, home: Path) -> dict[str, object]:
    (home / ".ssh").mkdir(parents=True) if key else home.mkdir()
    return {**case, "accounts": str(case.get("accounts", "")).format(home=home)}


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("case", ALONE)
def test_a_volume_of_mode_777_is_used_if_nobody_else_is_there(
    rented: Rented, tmp_path: Path, case: str, keep: bool
) -> None:
    machine, volume = rented(**options_for(ALONE[case], False, tmp_path / "ubuntu"))
    host = AgentHost("box", machine, workdir=f"{volume}/halfstep", keep=keep)
    assert host.probe(["id", "-u"]).stdout == b"0\n" and host.owners() == ()
    host.close()


@pytest.mark.parametrize("case", NOT_ALONE)
def test_a_volume_of_mode_777_is_refused_if_somebody_else_could_replace_what_lies_there(
    rented: Rented, tmp_path: Path, case: str
) -> None:
    machine, volume = rented(**options_for(NOT_ALONE[case], case == "a key", tmp_path / "ubuntu"))
    host = AgentHost("box", machine, workdir=f"{volume}/halfstep")
    with pytest.raises(HostUnfit, match=rf"{volume} on box is writable by other users \(mode 777\)") as caught:
        host.probe(["true"])
    host.close()
    assert f"chmod +t {volume}" in caught.value.hint


@pytest.mark.parametrize("what", ["folder", "link"])
@pytest.mark.parametrize("mode", [0o777, 0o1777])
@pytest.mark.parametrize("keep", [True, False])
def test_SE_what_an_account_without_an_entry_created_in_a_shared_folder_is_refused(
    rented: Rented, mode: int, what: str, keep: bool
) -> None:
    machine, volume = rented()
    planted(volume, what, mode)
    host = AgentHost("box", machine, workdir=f"{volume}/me/halfstep", keep=keep, trusts_owners=True)
    with pytest.raises(HostUnfit, match=rf"{volume}/me on box belongs to another user, uid 5000") as caught:
        host.probe(["true"])
    host.close()
    assert "folder of your own" in caught.value.hint and not caught.value.owner_untrusted


def planted(volume: Path, what: str, mode: int) -> None:
    (volume / ".p").mkdir()
    theirs = volume / "me"
    theirs.mkdir() if what == "folder" else theirs.symlink_to(".p")
    for path in (volume / ".p", theirs):
        os.chown(path, 5000, 5000, follow_symlinks=False)
    volume.chmod(mode)


@pytest.mark.parametrize("what", ["folder", "link"])
def test_SE_the_script_that_creates_containers_refuses_it_too(rented: Rented, tmp_path: Path, what: str) -> None:
    machine, volume = rented()
    planted(volume, what, 0o1777)
    engines = write_engine(tmp_path, "docker").parent
    outside = Within(machine, (f"PATH={engines}:/usr/bin:/bin",))
    starter = ContainerStarter(outside, Container("torch", "docker"), f"{volume}/me/halfstep", True)
    stream = starter.start(("echo", "started"))
    try:
        with pytest.raises(ConnectionLost):
            stream.read_some(100, 30.0)
        assert f"{volume}/me belongs to another user" in stream.stderr_text()
    finally:
        stream.close()


def test_a_volume_of_an_account_without_an_entry_is_used_if_the_owner_is_trusted(rented: Rented) -> None:
    machine, volume = rented()
    volume.parent.chmod(0o755)
    os.chown(volume, 5000, 5000)
    host = AgentHost("box", machine, workdir=f"{volume}/halfstep", trusts_owners=True)
    assert host.probe(["true"]).ok and host.owners()[0].startswith(f"{volume} belongs to uid 5000")
    host.close()


def test_a_volume_on_which_chmod_does_nothing_is_used(rented: Rented) -> None:
    machine, volume = rented()
    for name in ("halfstep", "halfstep/payload", "halfstep/projects"):
        (volume / name).mkdir()
        (volume / name).chmod(0o777)
    host = AgentHost("box", machine, workdir=f"{volume}/halfstep")
    host.write_bytes("file", b"x")
    assert host.read_bytes("file") == b"x"
    host.close()


def test_a_container_of_halfstep_shows_no_users_of_its_host_so_its_workdir_stays_private(rented: Rented) -> None:
    machine, volume = rented(mark=True)
    (volume / "halfstep").mkdir()
    (volume / "halfstep").chmod(0o777)
    inside = Within(machine, ("HALFSTEP_CONTAINER=docker halfstep-1 sha256:1d",))
    host = AgentHost("box", inside, workdir=f"{volume}/halfstep")
    with pytest.raises(HostUnfit, match="writable by other users"):
        host.probe(["true"])
    host.close()


@pytest.mark.parametrize("kind", ["docker", "apptainer"])
@pytest.mark.parametrize("case", [*ALONE, *NOT_ALONE])
def test_the_script_that_creates_containers_has_the_same_rule(
    rented: Rented, tmp_path: Path, case: str, kind: str
) -> None:
    options = {**ALONE, **NOT_ALONE}[case]
    machine, volume = rented(**options_for(options, case == "a key", tmp_path / "ubuntu"))
    engines = write_engine(tmp_path, kind).parent
    outside = Within(machine, (f"PATH={engines}:/usr/bin:/bin",))
    starter = ContainerStarter(outside, Container("torch", kind), f"{volume}/halfstep")
    stream = starter.start(("echo", "started"))
    try:
        if case in ALONE:
            assert stream.read_some(100, 30.0) == b"started\n", stream.stderr_text()
        else:
            with pytest.raises(ConnectionLost):
                stream.read_some(100, 30.0)
            assert f"{volume} is writable by other users" in stream.stderr_text()
    finally:
        stream.close()
