"""Folders of another user above the workdir, as in a lab whose data disk belongs to its head, are used if trusted."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.hosts.trust import trusted_address
from pipeline.verbs.hosts import check_host
from remote.errors import HostUnfit
from remote.link.agent import AgentHost
from remote.link.container import Container, ContainerStarter
from remote.link.local import local_host
from remote.link.reach import open_host
from remote.link.streams import LocalStarter
from remote.operations.inspection import Inspection, State
from tests.lab.answers import Person
from tests.pipeline.config.config_files import write
from tests.remote.link.container_engine import calls, home, write_engine
from tests.remote.link.test_folders_above import another_user
from tests.remote.link.test_shared_hosts import shared

__all__ = ["another_user", "home", "shared"]
pytestmark = [pytest.mark.root, pytest.mark.usefixtures("another_user")]
Account = Callable[..., str]


@pytest.fixture
def head(account: Account) -> str:
    """The head of the lab, another user."""
    return account()


@pytest.fixture
def group(tmp_path: Path, head: str) -> Path:
    """A folder of the head of the lab, with a folder of ours in it."""
    group = tmp_path / "group disk"
    (group / "me").mkdir(parents=True)
    os.chown(group, pwd.getpwnam(head).pw_uid, pwd.getpwnam(head).pw_gid)
    group.chmod(0o755)
    return group


def trusting(workdir: Path) -> AgentHost:
    return AgentHost("titan", LocalStarter(), workdir=str(workdir), trusts_owners=True)


def refusal(host: AgentHost) -> HostUnfit:
    with pytest.raises(HostUnfit) as caught:
        host.probe(["true"])
    host.close()
    return caught.value


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o1777])
def test_a_folder_of_another_user_is_used_if_trusted_and_its_owner_is_named(group: Path, head: str, mode: int) -> None:
    """Many systems give every user a group of the same name, and folders the mode 0775."""
    group.chmod(mode)
    workdir = group / "me/halfstep"
    error = refusal(local_host(str(workdir)))
    uid = pwd.getpwnam(head).pw_uid
    assert f"{group} on local belongs to another user, {head} (uid {uid})" in error.message
    assert error.owner_untrusted and error.hint.endswith("pipeline hosts check local") and not workdir.exists()
    host = trusting(workdir)
    assert host.probe(["true"]).ok
    assert host.owners() == (f"{group} belongs to {head} (uid {uid}), who can replace what runs in the workdir",)
    host.close()


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_trust_in_an_owner_is_no_trust_in_third_users(group: Path, mode: int) -> None:
    os.chown(group, -1, 64_000)
    group.chmod(mode)
    error = refusal(trusting(group / "me/halfstep"))
    assert f"{group} on titan is writable by other users" in error.message and not error.owner_untrusted


@pytest.mark.parametrize("what", ["folder", "link"])
def test_what_another_user_could_have_planted_is_refused_in_spite_of_trust(
    shared: Path, tmp_path: Path, head: str, what: str
) -> None:
    theirs = shared / "me"
    theirs.mkdir(mode=0o755) if what == "folder" else theirs.symlink_to(tmp_path)
    os.chown(theirs, pwd.getpwnam(head).pw_uid, -1, follow_symlinks=False)
    error = refusal(trusting(theirs / "halfstep"))
    assert f"{theirs} on titan belongs to another user, {head}" in error.message and not error.owner_untrusted


def test_the_workdir_itself_must_be_ours_in_spite_of_trust(group: Path, head: str) -> None:
    assert "belongs to another user" in refusal(trusting(group)).message


def test_an_owner_is_asked_to_set_the_sticky_bit_that_only_owners_can_set(
    shared: Path, head: str, account: Account
) -> None:
    """Seen by a user who is not root."""
    me, group = account(), shared / "group"
    shared.chmod(0o755)
    (group / "me").mkdir(parents=True)
    os.chown(group, pwd.getpwnam(head).pw_uid, 64_000)
    group.chmod(0o775)
    argv = ("setpriv", f"--reuid={me}", "--clear-groups", "--")

    class AsUser(LocalStarter):
        def start(self, command):  # type: ignore[no-untyped-def]
            return super().start((*argv, *command))

    host = AgentHost("titan", AsUser(), workdir=f"{group}/me/halfstep", trusts_owners=True)
    assert f"ask {head} (uid {pwd.getpwnam(head).pw_uid}) for `chmod +t {group}`" in refusal(host).hint


@pytest.mark.parametrize("kind", ["docker", "apptainer"])
def test_containers_are_created_below_a_folder_of_another_user_if_trusted(
    home: Path, tmp_path: Path, kind: str
) -> None:
    engine = write_engine(tmp_path, kind)
    group = tmp_path / "group disk"
    (group / "me").mkdir(parents=True)
    os.chown(group, 4242, -1)

    def host(trusts_owners: bool) -> AgentHost:
        starter = ContainerStarter(LocalStarter(), Container("torch"), f"{group}/me/halfstep", trusts_owners)
        workdir = str(home / "in container")
        return AgentHost("titan", starter, workdir=workdir, image="torch", trusts_owners=trusts_owners)

    error = refusal(host(trusts_owners=False))
    assert error.owner_untrusted and error.hint.endswith("pipeline hosts check titan")
    trusted = host(trusts_owners=True)
    assert trusted.probe(["id"]).ok and calls(engine)
    (owner,) = trusted.owners()
    assert owner.startswith(f"{group} belongs to UNKNOWN (uid 4242)")
    trusted.close()


@pytest.fixture
def lab(tmp_path: Path, group: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project whose host file sets a workdir in the folder of another user."""
    monkeypatch.setenv("HOME", str(tmp_path / "own home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own home/.config"))
    project = tmp_path / "project"
    write(project, f"host: local\nworkdir: {group}/me/halfstep\n", "hosts/local")
    yield project


def states(seen: Inspection) -> list[tuple[str, State]]:
    return [(row.name, row.state) for row in seen.rows if row.name in ("agent", "workdir")]


def test_hosts_check_asks_once_and_then_warns_of_the_owner(lab: Path, head: str) -> None:
    host = load_host("local", lab)
    unattended = check_host(host, None)
    assert unattended.exit_code == 22 and ("agent", State.FAILED) in states(unattended)
    no = Person(yes=False)
    assert check_host(host, no).exit_code == 22 and f"belongs to another user, {head}" in no.questions[0]
    yes = Person(yes=True)
    for prompter in (yes, yes, None):
        seen = check_host(host, prompter)
        assert seen.exit_code == 0
        (warning,) = (row.detail for row in seen.rows if row.state is State.WARNING and row.name == "workdir")
        assert f"belongs to {head}" in warning
    assert len(yes.questions) == 1


def test_a_workdir_of_the_command_line_or_of_a_confirmed_file_is_the_users_own_choice(lab: Path, group: Path) -> None:
    project_file = load_host("local", lab)
    assert not trusted_address(project_file).trusts_owners
    typed = load_host("local", lab, [f"host.workdir={group}/me/typed"])
    assert open_host(trusted_address(typed)).probe(["true"]).ok
    check_host(project_file, Person(yes=True))
    assert trusted_address(project_file).trusts_owners
    write(lab, f"host: local\nworkdir: {group}/me/other\n", "hosts/local")
    assert not trusted_address(load_host("local", lab)).trusts_owners, "a changed file"


def test_the_default_workdir_stays_strict(lab: Path, group: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(group / "me"))
    for text in ("host: local\n", "host: local\nworkdir: ~/halfstep\n"):
        write(lab, text, "hosts/local")
        user = Person(yes=True)
        assert check_host(load_host("local", lab), user).exit_code == 22 and not user.questions
    typed = load_host("local", lab, ["host.workdir=~/halfstep"])
    assert not trusted_address(typed).trusts_owners
