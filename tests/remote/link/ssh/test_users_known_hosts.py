"""SE: a host file adds host keys to the user's own known_hosts, and never replaces what these files say."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remote.errors import HostKeyRefused
from remote.link.reach import open_host
from remote.link.ssh.host_keys import KnownHosts, own_known_hosts, verify_host_key
from remote.link.ssh.known_hosts import HostKey, parse_known_hosts
from remote.link.ssh.route import ResolvedHop, known_hosts_name
from tests.lab.answers import Person
from tests.lab.sshd import Sshd, make_key
from tests.remote.link.ssh.refused_keys import attempts, refused

StartSshd = Callable[..., Sshd]
FILE, PIN = "known_hosts", "host_key"


FILES = {"none": ("none", "none"), "null": ("/dev/null", "/dev/null"), "missing": ("none", "/nonexistent/file")}


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the known_hosts that ssh reads for every host."""
    (tmp_path / "config").write_text(f'Host *\n  UserKnownHostsFile "{tmp_path}/users"\n')
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(tmp_path / "config"))
    return tmp_path / "users"


def pinned(server: Sshd, how: str) -> dict[str, str | None]:
    """Return the settings of a host file that expects the key of the server."""
    return {} if how == FILE else {"known_hosts": None, "host_key": server.fingerprint()}


def entry(folder: Path, name: str, *, kind: str = "ed25519") -> str:
    key = Path(f"{make_key(folder / f'other-{kind}', kind=kind)}.pub").read_text().split()
    return f"{name} {key[0]} {key[1]}\n"


def reaches(server: Sshd, prompter: Person | None = None, **changes: Any) -> bool:
    host = open_host(server.address(**changes), prompter=prompter)
    try:
        return host.probe(["true"]).ok
    finally:
        host.close()


@pytest.mark.parametrize("how", [FILE, PIN])
@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_SE_a_host_file_does_not_replace_the_key_that_the_user_knows(
    kind: str, how: str, sshd: Sshd, users: Path, tmp_path: Path
) -> None:
    users.write_text(entry(tmp_path, f"[{sshd.listen}]:{sshd.port}", kind=kind))
    error = refused(sshd, **pinned(sshd, how))
    assert "HAS CHANGED" in error.message and f"{users}:1" in error.message
    assert f"ssh-keygen -R '[{sshd.listen}]:{sshd.port}' -f {users}" in error.hint
    assert attempts(sshd) == []


@pytest.mark.parametrize("how", [FILE, PIN])
def test_SE_a_host_file_does_not_replace_a_key_that_halfstep_stored(how: str, sshd: Sshd, tmp_path: Path) -> None:
    own_known_hosts().parent.mkdir(parents=True, exist_ok=True)
    own_known_hosts().write_text(entry(tmp_path, f"[{sshd.listen}]:{sshd.port}"))
    assert "HAS CHANGED" in refused(sshd, **pinned(sshd, how)).message
    assert attempts(sshd) == []


@pytest.mark.parametrize("host", ["127.1", "2130706433"])
def test_SE_another_spelling_of_an_address_does_not_hide_the_key_that_the_user_knows(
    host: str, sshd: Sshd, users: Path, tmp_path: Path
) -> None:
    users.write_text(entry(tmp_path, f"[127.0.0.1]:{sshd.port}"))
    error = refused(sshd, **pinned(sshd, PIN), host=host)
    assert "HAS CHANGED" in error.message and f"'[127.0.0.1]:{sshd.port}'" in error.hint


@pytest.mark.parametrize("how", [FILE, PIN])
@pytest.mark.parametrize("chosen", [False, True])
def test_SE_a_key_that_the_user_revoked_is_refused_whoever_pins_it(
    chosen: bool, how: str, sshd: Sshd, users: Path
) -> None:
    users.write_text(f"@revoked {sshd.known_line()}")
    assert "revoked" in refused(sshd, **pinned(sshd, how), trusts_keys=chosen).message
    assert attempts(sshd) == []


@pytest.mark.parametrize("how", [FILE, PIN])
def test_a_key_that_the_user_chose_replaces_the_known_one(how: str, sshd: Sshd, users: Path, tmp_path: Path) -> None:
    users.write_text(entry(tmp_path, f"[{sshd.listen}]:{sshd.port}"))
    assert reaches(sshd, **pinned(sshd, how), trusts_keys=True)


@pytest.mark.parametrize("how", [FILE, PIN])
def test_a_host_file_pins_the_key_of_a_machine_that_the_user_does_not_know(
    how: str, sshd: Sshd, users: Path, tmp_path: Path
) -> None:
    users.write_text(entry(tmp_path, "elsewhere") + entry(tmp_path, f"[{sshd.listen}]:1", kind="ecdsa"))
    assert reaches(sshd, **pinned(sshd, how))


def test_the_file_may_have_the_keys_of_other_types_than_the_user(start_sshd: StartSshd, users: Path) -> None:
    server = start_sshd(host_kinds=("ed25519", "ecdsa"))
    users.write_text(server.known_line("ecdsa"))
    server.known_hosts.write_text(server.known_line("ed25519"))
    assert reaches(server)


def test_SE_the_file_still_refuses_a_key_that_contradicts_it(sshd: Sshd, users: Path, tmp_path: Path) -> None:
    users.write_text(sshd.known_line())
    sshd.known_hosts.write_text(entry(tmp_path, f"[{sshd.listen}]:{sshd.port}"))
    assert str(sshd.known_hosts) in refused(sshd).message


def test_SE_the_keys_that_known_hosts_command_prints_are_the_users_too(sshd: Sshd, users: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(entry(tmp_path, f"[{sshd.listen}]:{sshd.port}"))
    with (tmp_path / "config").open("a") as file:
        file.write(f"  KnownHostsCommand /bin/cat {tmp_path}/lines\n")
    assert "HAS CHANGED" in refused(sshd).message
    assert reaches(sshd, trusts_keys=True), "the user's own choice replaces the command"


def without_files(config: Path, files: str, *more: str) -> None:
    """Let ssh read no known_hosts files."""
    own, shared = FILES[files]
    lines = [f"UserKnownHostsFile {own}", f"GlobalKnownHostsFile {shared}", *more]
    config.write_text("".join(["Host *\n", *(f"  {line}\n" for line in lines)]))


@pytest.mark.parametrize("how", [FILE, PIN])
@pytest.mark.parametrize("files", FILES)
def test_SE_the_command_applies_if_ssh_reads_no_known_hosts_files(
    files: str, how: str, sshd: Sshd, users: Path, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text(entry(tmp_path, f"[{sshd.listen}]:{sshd.port}"))
    without_files(tmp_path / "config", files, f"KnownHostsCommand /bin/cat {tmp_path}/lines")
    assert "HAS CHANGED" in refused(sshd, **pinned(sshd, how)).message
    assert attempts(sshd) == []
    (tmp_path / "lines").write_text(f"@revoked {sshd.known_line()}")
    assert "revoked" in refused(sshd, **pinned(sshd, how)).message


@pytest.mark.parametrize("how", [FILE, PIN])
@pytest.mark.parametrize("files", FILES)
def test_SE_halfsteps_own_file_applies_if_ssh_reads_no_known_hosts_files(
    files: str, how: str, sshd: Sshd, users: Path, tmp_path: Path
) -> None:
    without_files(tmp_path / "config", files)
    assert reaches(sshd, **pinned(sshd, how)), "the user knows no key"
    own_known_hosts().parent.mkdir(parents=True, exist_ok=True)
    own_known_hosts().write_text(entry(tmp_path, f"[{sshd.listen}]:{sshd.port}"))
    assert "HAS CHANGED" in refused(sshd, **pinned(sshd, how)).message
    own_known_hosts().write_text(f"@revoked {sshd.known_line()}")
    assert "revoked" in refused(sshd, **pinned(sshd, how), trusts_keys=True).message


@pytest.mark.parametrize("how", [FILE, PIN])
def test_SE_a_host_file_does_not_add_a_key_for_another_port_of_a_known_machine_unasked(
    how: str, sshd: Sshd, users: Path, tmp_path: Path
) -> None:
    users.write_text(entry(tmp_path, sshd.listen))
    error = refused(sshd, **pinned(sshd, how))
    assert "is unknown" in error.message and "expects the key SHA256:" in error.message
    assert attempts(sshd) == []
    assert reaches(sshd, **pinned(sshd, how), trusts_keys=True)
    person = Person(yes=True)
    assert reaches(sshd, prompter=person, **pinned(sshd, how)) and reaches(sshd, **pinned(sshd, how))
    (question,) = person.questions
    assert f"({users}:1)" in question


@pytest.mark.parametrize(
    ("known", "host", "port", "refused"),
    [
        ("[titan.example]:2222", "titan.example", 22, True),
        ("[titan.example]:2222", "titan.example", 2223, True),
        ("titan*", "titan.example", 2223, True),
        ("rig.example,[rig.example]:22", "titan.example", 2223, False),
        ("[127.0.0.1]:2222", "127.0.0.1", 2223, False),
        ("127.0.0.1", "127.1", 2223, True),
        ("[titan.*]:2222", "titan.example", 22, True),
        ("[titan.exampl?]:*", "titan.example", 22, True),
        ("[titan.example*", "titan.example", 22, True),
        ("[rig.*]:2222,[titan.exampl?x]:*", "titan.example", 22, False),
        ("[127.0.0.?]:*2", "127.0.0.1", 2223, False),
        ("@cert-authority titan.example,rig", "titan.example", 22, True),
        ("@cert-authority *.example", "titan.example", 2223, True),
        ("@cert-authority rig.example", "titan.example", 22, False),
    ],
)
def test_SE_every_port_of_a_machine_counts_unless_it_may_be_a_tunnel(
    known: str, host: str, port: int, refused: bool, tmp_path: Path
) -> None:
    text = entry(tmp_path / "users", known)
    users, _ = parse_known_hosts(text, "users")
    presented = HostKey("ssh-ed25519", b"presented")
    name = known_hosts_name(host, port)
    hop = ResolvedHop(host, host, port, has_pins=True, host_key=presented.fingerprint, key_name=name)
    found = KnownHosts((), (), users=users)
    with pytest.raises(HostKeyRefused, match="is unknown") if refused else contextlib.nullcontext():
        verify_host_key(hop, found, presented, tmp_path / "own", None)
    same = replace(hop, host_key=users[0].key.fingerprint)
    verify_host_key(same, found, users[0].key, tmp_path / "own", None)
