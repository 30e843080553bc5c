"""The folders above the workdir are checked: a user who can rename one of them could replace what is executed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from remote.errors import ContainerUnavailable, HostUnfit
from remote.link.agent import AgentHost
from remote.link.bundle import payload_bundle
from remote.link.container import Container
from remote.link.local import local_host
from remote.link.reach import open_host
from remote.link.streams import LocalProcessStream, LocalStarter, ProcessStream
from remote.protocol.exits import ExitCode
from tests.lab.payload import install_payload
from tests.remote.link.container_engine import calls, home, titan, write_engine
from tests.remote.link.test_shared_hosts import ran_as, shared

__all__ = ["home", "shared"]
pytestmark = pytest.mark.root
Account = Callable[..., str]
NOBODYS_GROUP = 64_000


@pytest.fixture(autouse=True)
def another_user() -> Iterator[None]:
    """A process of another user, without which root in a container may use folders of any mode."""
    process = subprocess.Popen(["setpriv", "--reuid=4242", "--clear-groups", "sleep", "600"])
    yield
    process.kill()
    process.wait()


def refused(workdir: Path, keep: bool) -> HostUnfit:
    host = local_host(str(workdir), keep=keep)
    with pytest.raises(HostUnfit) as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.exit_code is ExitCode.DISK
    return caught.value


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("mode", [0o777, 0o757, 0o773, 0o775])
def test_a_folder_above_that_others_may_write_to_is_refused_until_it_has_the_sticky_bit(
    tmp_path: Path, mode: int, keep: bool
) -> None:
    above = tmp_path / "group disk"
    (above / "me").mkdir(parents=True)
    os.chown(above, 0, NOBODYS_GROUP)
    above.chmod(mode)
    error = refused(above / "me/halfstep", keep)
    assert f"{above} on local is writable by other users (mode {mode:o})" in error.message
    assert not (above / "me/halfstep").exists()
    subprocess.run(["sh", "-c", error.hint.partition("   (")[0]], check=True)
    assert local_host(str(above / "me/halfstep"), keep=keep).probe(["true"]).ok


def test_a_workdir_that_another_user_replaced_by_renaming_a_folder_above_is_not_used(
    tmp_path: Path, account: Account
) -> None:
    """The reason for the check: a workdir of mode 0700 does not protect itself."""
    other, above = account(), Path("/tmp") / f"{tmp_path.name}-{os.getpid()}"
    above.mkdir()
    above.chmod(0o777)
    try:
        (above / "me/halfstep").mkdir(parents=True, mode=0o700)
        script = f"mv {above}/me {above}/.old && mkdir -p {above}/me/halfstep && ln -s {above}/.old {above}/me/back"
        assert ran_as(other, "sh", "-c", script).returncode == 0
        for workdir in ("me/halfstep", "me/back/halfstep"):
            assert str(above) in refused(above / workdir, keep=True).message
        above.chmod(0o1777)
        # The folder itself is safe now, but its files, which the other user created, are not.
        for workdir in ("me/halfstep", "me/back/halfstep"):
            assert f"{above}/me on local belongs to another user" in refused(above / workdir, keep=True).message
    finally:
        shutil.rmtree(above)


@pytest.mark.parametrize("relative", [True, False])
def test_the_folders_to_which_links_lead_are_checked_too(shared: Path, tmp_path: Path, relative: bool) -> None:
    opened = tmp_path / "open"
    (opened / "disk").mkdir(parents=True)
    opened.chmod(0o777)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/disk").symlink_to("../open/disk" if relative else opened / "disk")
    (tmp_path / "mine/halfstep").symlink_to("disk/halfstep")
    for workdir in ("mine/disk/halfstep", "mine/halfstep", "mine/../mine/disk/x/.."):
        assert f"{opened} on local is writable" in refused(tmp_path / workdir, keep=False).message
    opened.chmod(0o755)
    (opened / "disk/halfstep").mkdir()
    assert local_host(str(tmp_path / "mine/halfstep")).probe(["true"]).ok


def test_a_link_of_another_user_on_the_way_is_refused_though_it_leads_to_a_folder_of_ours(
    shared: Path, tmp_path: Path, account: Account
) -> None:
    assert ran_as(account(), "ln", "-s", str(tmp_path), f"{shared}/me").returncode == 0
    assert f"{shared}/me on local belongs to another user" in refused(shared / "me/halfstep", keep=True).message
    assert not (tmp_path / "halfstep").exists()


@pytest.mark.parametrize("loop", ["a", "../a/./a"])
def test_a_loop_of_links_ends_with_an_error(tmp_path: Path, loop: str) -> None:
    (tmp_path / "a").symlink_to(loop)
    assert "could not be stored" in refused(tmp_path / "a/halfstep", keep=True).message


@pytest.mark.parametrize("workdir", ["halfstep", "me/halfstep", "link/halfstep", "../{}/./me/halfstep/"])
@pytest.mark.parametrize("keep", [True, False])
def test_nobody_can_create_a_missing_folder_of_the_workdir_after_the_check(
    shared: Path, account: Account, keep: bool, workdir: str
) -> None:
    """Otherwise another user could put a program into the workdir of a command that only reads, such as plan."""
    other = account()
    (shared / "link").symlink_to("elsewhere")
    place = shared / workdir.format(shared.name)
    host = local_host(str(place), keep=keep)
    assert host.probe(["true"]).ok
    assert ran_as(other, "mkdir", "-p", f"{place}/projects/p/tree/.venv/bin").returncode != 0
    assert ran_as(other, "mkdir", f"{shared}/theirs").returncode == 0
    for name in ("halfstep", "me", "elsewhere"):
        if (shared / name).exists():
            moved = ran_as(other, "mv", "-T", f"{shared}/theirs", f"{shared}/{name}")
            assert moved.returncode != 0 and stat.S_IMODE((shared / name).stat().st_mode) == 0o700
    assert host.probe(["true"]).ok
    host.close()


def test_a_command_that_only_reads_creates_nothing_where_no_other_user_could(tmp_path: Path) -> None:
    host = local_host(str(tmp_path / "me/halfstep"), keep=False)
    assert host.probe(["true"]).ok
    host.close()
    assert list(tmp_path.iterdir()) == []


class Interrupted(LocalStarter):
    """Calls `attack` while the bootstrap waits for the payload, which is after it checked the folders."""

    def __init__(self, attack: Callable[[], object]) -> None:
        self._attack = attack

    def start(self, argv: Sequence[str]) -> ProcessStream:
        stream = LocalProcessStream(argv)
        write = stream.write

        def attack_and_write(data: bytes, timeout_s: float) -> None:
            self._attack()
            write(data, timeout_s)

        stream.write = attack_and_write  # type: ignore[method-assign]
        return stream


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("made", ["mkdir {0}/halfstep", "ln -s /tmp {0}/halfstep", "touch {0}/halfstep"])
def test_a_user_who_creates_the_workdir_while_the_payload_is_sent_comes_too_late(
    shared: Path, account: Account, keep: bool, made: str
) -> None:
    other, codes = account(), list[int]()
    starter = Interrupted(lambda: codes.append(ran_as(other, "sh", "-c", made.format(shared)).returncode))
    host = AgentHost("titan", starter, workdir=f"{shared}/halfstep", keep=keep)
    assert host.probe(["true"]).ok and codes and ((shared / "halfstep").lstat().st_uid == os.geteuid())
    host.close()
    inside = {path.name for path in (shared / "halfstep").iterdir()}
    assert inside == ({"payload"} if keep else set())


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("how", ["a file of another user", "a link", "a second name", "writable", "a FIFO"])
def test_a_stored_payload_that_another_user_could_change_after_the_check_is_not_executed(
    tmp_path: Path, account: Account, keep: bool, how: str
) -> None:
    install_payload(tmp_path / "work")
    stored = tmp_path / "work/payload" / f"{payload_bundle(byte_code=True).sha256}.pyz"
    if how == "a file of another user":
        shutil.chown(stored, account())
    elif how == "writable":
        stored.chmod(0o666)
    elif how == "a second name":
        (tmp_path / "elsewhere").hardlink_to(stored)
    else:
        stored.rename(tmp_path / "elsewhere")
        stored.symlink_to(tmp_path / "elsewhere") if how == "a link" else os.mkfifo(stored)
    wrong = stored.lstat().st_ino
    host = local_host(str(tmp_path / "work"), keep=keep)
    assert (host.greeting["payload"] == str(stored)) is keep
    host.close()
    assert (stored.lstat().st_ino == wrong) is not keep


@pytest.mark.parametrize("kind", ["docker", "apptainer"])
@pytest.mark.parametrize(("mode", "group"), [(0o777, 0), (0o773, 0), (0o775, NOBODYS_GROUP)])
def test_no_container_is_created_below_a_folder_that_others_may_write_to(
    home: Path, tmp_path: Path, kind: str, mode: int, group: int
) -> None:
    engine = write_engine(tmp_path, kind)
    os.chown(home, 0, group)
    home.chmod(mode)
    (tmp_path / "link").symlink_to("home")
    for workdir in (f"{home}/me/halfstep", f"{tmp_path}/link/me/halfstep"):
        host = open_host(titan(Container("torch"), workdir))
        with pytest.raises(ContainerUnavailable, match=f"{home} is writable by other users"):
            host.probe(["true"])
        host.close()
    assert not (home / "me").exists() and not (tmp_path / "bin/state/calls").exists()
    home.chmod(mode | 0o1000)
    host = open_host(titan(Container("torch"), f"{home}/me/halfstep"))
    assert host.probe(["id"]).ok and calls(engine)
    assert stat.S_IMODE((home / "me").stat().st_mode) == 0o700
    host.close()


@pytest.mark.parametrize("kind", ["docker", "apptainer"])
@pytest.mark.parametrize("spelling", ["lab", "lab/", "lab/.", "lab/x/..", "link", "link/./"])
@pytest.mark.parametrize("mode", [0o3770, 0o1777, 0o3773])
def test_SE_the_sticky_bit_does_not_protect_the_workdir_of_a_container_itself(
    home: Path, tmp_path: Path, kind: str, spelling: str, mode: int
) -> None:
    write_engine(tmp_path, kind)
    (home / "lab/x").mkdir(parents=True)
    (home / "link").symlink_to("lab")
    os.chown(home / "lab", 0, NOBODYS_GROUP)
    (home / "lab").chmod(mode)
    host = open_host(titan(Container("torch"), f"{home}/{spelling}"))
    with pytest.raises(ContainerUnavailable, match=f"{home}/(lab|link)/*.* is writable by other users"):
        host.probe(["true"])
    host.close()
    assert not (tmp_path / "bin/state/calls").exists() and not (home / "lab/containers").exists()


@pytest.mark.parametrize("spelling", ["lab", "lab/.", "lab/x/.."])
def test_SE_a_workdir_of_another_user_is_refused_in_every_spelling(home: Path, tmp_path: Path, spelling: str) -> None:
    write_engine(tmp_path, "docker")
    (home / "lab/x").mkdir(parents=True)
    os.chown(home / "lab", 4242, -1)
    host = open_host(replace(titan(Container("torch"), f"{home}/{spelling}"), trusts_owners=True))
    with pytest.raises(ContainerUnavailable, match="belongs to another user"):
        host.probe(["true"])
    host.close()
    assert not (tmp_path / "bin/state/calls").exists()


@pytest.mark.parametrize("link", [True, False])
def test_no_container_is_created_below_a_folder_or_link_of_another_user(home: Path, tmp_path: Path, link: bool) -> None:
    write_engine(tmp_path, "apptainer")
    theirs = tmp_path / "theirs"
    theirs.symlink_to(home) if link else theirs.mkdir()
    os.chown(theirs, 4242, -1, follow_symlinks=False)
    host = open_host(titan(Container("torch"), f"{theirs}/work"))
    with pytest.raises(ContainerUnavailable, match=f"{theirs} belongs to another user"):
        host.probe(["true"])
    host.close()
    assert not (theirs / "work").exists()
