"""In a user namespace, root and all users without a mapping have one uid; folders of root are recognised by place."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from remote.errors import HostUnfit
from remote.link.agent import AgentHost
from remote.link.streams import LocalProcessStream, LocalStarter, ProcessStream
from tests.lab.container_root import ContainerRoot
from tests.lab.mounts import why_no_mounts
from tests.remote.link.test_shared_hosts import shared

__all__ = ["shared"]
pytestmark = pytest.mark.root
Account = Callable[..., str]
STRANGER = 4242


@dataclass(frozen=True)
class InNamespace(LocalStarter):
    """Starts processes in a user namespace that maps only the user, as unprivileged Apptainer does, or nobody."""

    user: str
    options: tuple[str, ...] = ("-c",)
    variables: tuple[str, ...] = ()

    def start(self, argv: Sequence[str]) -> ProcessStream:
        me = pwd.getpwnam(self.user)
        as_user = ("setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--init-groups", "--")
        variables = ("env", f"HOME={me.pw_dir}", *self.variables)
        return LocalProcessStream((*as_user, *variables, "unshare", "-U", *self.options, *argv))


@pytest.fixture
def user(account: Account) -> str:
    return account()


@pytest.fixture
def team(shared: Path, user: str) -> Iterator[Path]:
    """A folder of a stranger in which everybody may create folders, and a folder of the user in it."""
    shared.chmod(0o755)
    shutil.chown(shared, user)
    team = shared / "team"
    (team / "me").mkdir(parents=True)
    os.chown(team, STRANGER, STRANGER)
    team.chmod(0o1777)
    shutil.chown(team / "me", user)
    yield team


def refusal(starter: LocalStarter, workdir: Path | str, *, trusts_owners: bool = False, keep: bool = True) -> HostUnfit:
    host = AgentHost("titan", starter, workdir=str(workdir), trusts_owners=trusts_owners, keep=keep)
    with pytest.raises(HostUnfit) as caught:
        host.probe(["true"])
    host.close()
    return caught.value


@pytest.mark.parametrize("options", [("-c",), ("-r",)])
@pytest.mark.parametrize("folder", ["home", "tmp"])
def test_folders_of_the_system_and_above_the_home_folder_are_accepted_although_root_is_not_mapped(
    user: str, tmp_path_factory: pytest.TempPathFactory, folder: str, options: tuple[str, ...]
) -> None:
    home = Path(pwd.getpwnam(user).pw_dir)
    workdir = home / "halfstep" if folder == "home" else Path("/tmp") / f"{user}-halfstep"
    host = AgentHost("titan", InNamespace(user, options), workdir=str(workdir))
    try:
        assert host.probe(["stat", "-c", "%u", "/"]).stdout == b"65534\n" and host.owners() == ()
    finally:
        host.close()
        shutil.rmtree(workdir)


def test_the_default_workdir_is_accepted_below_folders_of_other_names(user: str, team: Path) -> None:
    """A home folder as on a cluster, `/gpfs/home/me`: whoever owns a folder above it can replace it anyway."""
    starter = InNamespace(user, variables=(f"HOME={team / 'me'}",))
    host = AgentHost("titan", starter)
    assert host.probe(["true"]).ok and (team / "me/halfstep").is_dir()
    host.close()


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("options", [("-c",), ("-r",)])
def test_SE_a_folder_of_an_unmapped_user_above_the_workdir_is_not_accepted_like_one_of_root(
    user: str, team: Path, keep: bool, options: tuple[str, ...]
) -> None:
    error = refusal(InNamespace(user, options), team / "me/halfstep", keep=keep)
    assert "belongs to another user, a user whom the container or user namespace does not map" in error.message
    assert error.owner_untrusted and "workdir:" in error.hint and not (team / "me/halfstep").exists()


def test_SE_a_trusted_unmapped_owner_is_named(user: str, team: Path) -> None:
    host = AgentHost("titan", InNamespace(user), workdir=f"{team}/me/halfstep", trusts_owners=True)
    assert host.probe(["true"]).ok
    assert any(line.startswith(f"{team} belongs to a user whom") and "65534" in line for line in host.owners())
    host.close()


@pytest.mark.parametrize("trusts_owners", [True, False])
def test_SE_a_workdir_of_an_unmapped_user_is_refused(user: str, team: Path, trusts_owners: bool) -> None:
    workdir = team / "me/halfstep"
    workdir.mkdir()
    os.chown(workdir, STRANGER, STRANGER)
    starter = InNamespace(user, variables=(f"HOME={team / 'me'}",))
    error = refusal(starter, workdir, trusts_owners=trusts_owners)
    assert f"{workdir} on titan belongs to another user" in error.message and not error.owner_untrusted


def test_SE_a_user_without_a_mapping_owns_no_folder(user: str) -> None:
    """Without a mapping, the files of every user seem to belong to the process."""
    home = Path(pwd.getpwnam(user).pw_dir)
    workdir = home / "halfstep"
    workdir.mkdir()
    shutil.chown(workdir, user)
    for trusts_owners in (False, True):
        error = refusal(InNamespace(user, ()), workdir, trusts_owners=trusts_owners, keep=False)
        assert f"{home} on titan belongs to another user" in error.message


def test_a_container_of_halfstep_accepts_the_folders_that_its_host_has_checked(user: str, team: Path) -> None:
    starter = InNamespace(user, variables=("HALFSTEP_CONTAINER=podman halfstep-1 sha256:1d",))
    host = AgentHost("titan", starter, workdir=f"{team}/me/halfstep")
    assert host.probe(["true"]).ok
    host.close()


def test_SE_an_unmapped_group_counts_as_shared_whatever_it_is_called(tmp_path: Path) -> None:
    """Some systems give uid 65534 and gid 65534 one name."""
    if reason := why_no_mounts():
        pytest.skip(reason)
    group = tmp_path / "group"
    (group / "me").mkdir(parents=True)
    os.chown(group, STRANGER, 65534)
    group.chmod(0o775)
    machine = ContainerRoot(tmp_path, accounts=f"nogroup:x:{STRANGER}:{STRANGER}::/:/bin/sh\n")
    error = refusal(machine, group / "me/halfstep", trusts_owners=True)
    assert f"{group} on titan is writable by other users" in error.message
