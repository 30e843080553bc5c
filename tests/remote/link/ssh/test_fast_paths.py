"""Private names of paramiko: used with tested versions only, and every connection works without them."""

from __future__ import annotations

import hashlib
import inspect
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest
from paramiko.auth_handler import AuthHandler, AuthOnlyHandler
from paramiko.transport import ChannelMap

from remote.errors import AgentEnded, AuthRefused, HostKeyRefused
from remote.link.address import Address
from remote.link.agent import AgentHost
from remote.link.agent_start import Retries
from remote.link.ssh.fast_paths import TESTED_VERSIONS, EarlyChannel, FastTransport, transport_class
from remote.link.ssh.starter import SshStarter
from remote.link.ssh.transport import SshTransport
from tests.lab.answers import Person
from tests.lab.delayed_link import DelayedLink
from tests.lab.ssh_server import Account, paramiko_server
from tests.lab.sshd import Sshd, make_key

StartSshd = Callable[..., Sshd]
ROOT = Path(__file__).parents[4]
# The digest of the source of each private function that fast_paths.py calls, overrides or assumes something about.
# After a change: read the function, run this file and test_login.py, then add the version and the digest.
RELIED_ON = {
    "AuthHandler._client_handler_table": "123669be46b2",
    "AuthHandler._finalize_pubkey_algorithm": "b0d0e3d8cd35",
    "AuthHandler._get_key_type_and_bits": "74235b6d3eff",
    "AuthHandler._get_session_blob": "fcfa1f161fb5",
    "AuthHandler._parse_userauth_failure": "15d544537331",
    "AuthHandler._parse_userauth_info_request": "e3024b902dda",
    "AuthHandler._parse_userauth_success": "1ab82ea8f025",
    "AuthHandler.wait_for_response": "27097d6a169c",
    "AuthOnlyHandler._client_handler_table": "0c95a4c15829",
    "AuthOnlyHandler.auth_interactive": "5d0810cb224a",
    "AuthOnlyHandler.auth_none": "936e43ebeb0c",
    "AuthOnlyHandler.auth_password": "3dd87bd87de4",
    "AuthOnlyHandler.auth_publickey": "00882d48db0c",
    "AuthOnlyHandler.send_auth_request": "033ed3a693f1",
    "Transport._send_message": "0f365864aee0",
    "Transport._send_user_message": "3faeba789bc6",
    "Transport._parse_channel_open_success": "812dcbef708a",
    "Transport.open_channel": "e89cdf34ea0f",
    "Channel._set_remote_channel": "3c90f17d182e",
    "ChannelMap.get": "53f55959cfaa",
    "Transport.run": "d658434778e5",
}
CLASSES = {
    "AuthHandler": AuthHandler,
    "AuthOnlyHandler": AuthOnlyHandler,
    "Transport": paramiko.Transport,
    "Channel": paramiko.Channel,
    "ChannelMap": ChannelMap,
}


def digest(name: str) -> str:
    owner, _, attribute = name.partition(".")
    function = inspect.getattr_static(CLASSES[owner], attribute)
    source = inspect.getsource(function.fget if isinstance(function, property) else function)
    return hashlib.sha256(source.encode()).hexdigest()[:12]


@pytest.mark.parametrize("name", RELIED_ON)
def test_the_private_functions_of_paramiko_in_use_have_the_known_digests(name: str) -> None:
    assert digest(name) == RELIED_ON[name], f"paramiko {paramiko.__version__} changed {name}: see the comment above"


def test_the_version_that_constraints_txt_installs_is_a_tested_one() -> None:
    line = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("paramiko=="))
    assert line.removeprefix("paramiko==") in TESTED_VERSIONS
    assert transport_class() is FastTransport


@pytest.mark.parametrize("version", ["4.0.0", "5.1.1", "5.2.0", "6.0.0", ""])
def test_a_version_that_was_not_tested_gets_the_public_interface(version: str) -> None:
    assert transport_class(version) is SshTransport


def public(address: Address, person: Person | None = None) -> AgentHost:
    """Return the host over a connection that uses public names only."""
    starter = SshStarter(address, prompter=person, fast=False)
    return AgentHost(address.name, starter, workdir=address.workdir, retries=Retries(tries=1))


def echo(host: AgentHost) -> bytes:
    try:
        return host.probe(["echo", "hi"]).stdout
    finally:
        host.close()


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_with_public_names_every_type_of_key_is_accepted(sshd: Sshd, tmp_path: Path, kind: str) -> None:
    key = make_key(tmp_path / "mine", kind=kind)
    (sshd.root / "authorized_keys").write_text(Path(f"{key}.pub").read_text())
    assert echo(public(sshd.address(identity_file=str(key)))) == b"hi\n"


def test_with_public_names_files_are_written_and_read_over_one_connection(sshd: Sshd) -> None:
    host = public(sshd.address())
    data = bytes(range(256)) * 20_000
    host.write_bytes("data", data)
    assert host.read_bytes("data") == data
    events = host.follow("follow.log", {"run": "run", "offset": 0})
    host.write_bytes("run/jobs/1/output.log", b"line\n")
    assert next(events)
    host.close()
    assert sshd.log.count("Accepted publickey") == 1


def test_with_public_names_the_right_key_is_found_behind_wrong_ones(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "".join(f"  IdentityFile {make_key(tmp_path / f'wrong{number}')}\n" for number in range(3))
    config = tmp_path / "config"
    config.write_text(f"Host titan\n  IdentitiesOnly yes\n{wrong}" + sshd.ssh_config())
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    assert echo(public(Address("titan", "titan", workdir=str(sshd.home / "w")))) == b"hi\n"


def test_with_public_names_a_passphrase_is_prompted_for(start_sshd: StartSshd) -> None:
    server = start_sshd()
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", server.user_key], check=True)
    person = Person(secrets=["wrong", "open sesame"])
    assert echo(public(server.address(), person)) == b"hi\n"
    assert len(person.questions) == 2


def test_with_public_names_a_rejected_key_is_reported_with_the_allowed_methods(sshd: Sshd, tmp_path: Path) -> None:
    host = public(sshd.address(identity_file=str(make_key(tmp_path / "wrong"))))
    with pytest.raises(AuthRefused, match=r"wrong.*it allows publickey"):
        echo(host)


def test_with_public_names_too_many_keys_are_reported(start_sshd: StartSshd, tmp_path: Path) -> None:
    server = start_sshd(lines=["MaxAuthTries 1"])
    with pytest.raises(AuthRefused, match="wrong"):
        echo(public(server.address(identity_file=str(make_key(tmp_path / "wrong")))))


def test_with_public_names_login_ends_after_three_wrong_passwords(start_sshd: StartSshd) -> None:
    server = start_sshd(lines=["PubkeyAuthentication no", "PasswordAuthentication yes", "MaxAuthTries 10"])
    person = Person(secrets=["a", "b", "c", "d"])
    with pytest.raises(AuthRefused, match="password"):
        echo(public(server.address(), person))
    assert len(person.questions) == 3


@pytest.mark.parametrize("fast", [True, False])
def test_a_chain_of_gateways_is_crossed(
    fast: bool, start_sshd: StartSshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(monkeypatch, tmp_path, [start_sshd(name) for name in ("one", "two", "titan")])
    starter = SshStarter(Address("titan", "titan", workdir=str(tmp_path / "w")), fast=fast)
    assert echo(AgentHost("titan", starter, workdir=str(tmp_path / "w"))) == b"hi\n"


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("unknown", [0, 1, 2])
def test_fabrics_default_of_accepting_any_host_key_is_never_in_force(
    fast: bool, unknown: int, start_sshd: StartSshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = [start_sshd(name) for name in ("one", "two", "titan")]
    servers[unknown].known_hosts.write_text("")
    chain(monkeypatch, tmp_path, servers)
    starter = SshStarter(Address("titan", "titan", destination="titan"), fast=fast)
    with pytest.raises(HostKeyRefused) as caught:
        starter.start(["true"])
    starter.close()
    assert servers[unknown].fingerprint() in caught.value.message
    assert ["Accepted" in server.log for server in servers] == [number < unknown for number in range(3)]


def chain(monkeypatch: pytest.MonkeyPatch, folder: Path, servers: list[Sshd]) -> None:
    """Makes each server but the first reachable through the one before it, by an ssh configuration."""
    names = [server.root.name for server in servers]
    jumps = ["", *(f"  ProxyJump {name}\n" for name in names[:-1])]
    blocks = [server.ssh_config(name) + jump for server, name, jump in zip(servers, names, jumps, strict=True)]
    (folder / "chain").write_text("".join(blocks))
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(folder / "chain"))


def test_a_command_that_ends_at_once_is_an_ended_command_and_not_a_lost_connection(sshd: Sshd) -> None:
    for _ in range(20):
        starter = SshStarter(sshd.address())
        stream = starter.start(["false"])
        with pytest.raises(AgentEnded):
            stream.read_some(10, 10.0)
        starter.close()


class ForgetfulTransport:
    """Has already removed the channel when the thread looks it up, as paramiko does with a closed one."""

    def open_channel_now(self, destination: tuple[str, int] | None) -> paramiko.Channel:
        raise paramiko.SSHException("Unable to open channel.")


@pytest.mark.parametrize("opened", [True, False])
def test_a_channel_that_closed_before_it_was_looked_up_is_still_returned(opened: bool) -> None:
    early = EarlyChannel(ForgetfulTransport(), "true", None)
    early.channel = paramiko.Channel(0)
    early.channel.active = opened
    early.start()
    if opened:
        assert early.result() is early.channel
    else:
        with pytest.raises(paramiko.SSHException, match="Unable to open"):
            early.result()


@pytest.mark.parametrize("fast", [True, False])
def test_keyboard_interactive_asks_each_question_of_the_server(fast: bool, tmp_path: Path) -> None:
    account = Account(answers=("one", "two"))
    person = Person(secrets=["wrong", "wrong", "one", "two"])
    with paramiko_server(tmp_path, account) as address:
        starter = SshStarter(address, prompter=person, fast=fast)
        stream = starter.start(["echo", "hi"])
        assert stream.read_some(10, 10.0) == b"hi\n"
        starter.close()
    assert ["Question 0" in question for question in person.questions] == [True, False, True, False]
    assert all('asks: "Question' in question and "\n" not in question for question in person.questions)


def test_questions_without_an_answer_are_no_tried_password(tmp_path: Path) -> None:
    with paramiko_server(tmp_path, Account(answers=("one",))) as address, pytest.raises(AuthRefused) as caught:
        SshStarter(address, prompter=Person()).start(["echo", "hi"])
    assert "password (none was typed; without a terminal" in caught.value.message


@pytest.mark.parametrize("fast", [True, False])
def test_a_server_other_than_openssh_runs_commands(fast: bool, tmp_path: Path) -> None:
    key = make_key(tmp_path / "mine")
    with paramiko_server(tmp_path, Account(key=paramiko.PKey.from_path(key))) as address:
        starter = SshStarter(replace(address, identity_file=str(key)), fast=fast)
        for number in range(3):
            assert starter.start(["echo", str(number)]).read_some(10, 10.0) == f"{number}\n".encode()
        starter.close()


@pytest.mark.root
def test_the_fast_paths_save_three_round_trips(start_sshd: StartSshd, start_link: Callable[..., DelayedLink]) -> None:
    line = start_link(one_way_ms=100)
    server = start_sshd(listen=line.far, prefix=line.prefix)
    seconds = {fast: min(connect_seconds(server.address(), fast) for _ in range(3)) for fast in (True, False)}
    assert seconds[False] - seconds[True] > 0.5


def connect_seconds(address: Address, fast: bool) -> float:
    """Return the seconds from the first packet until the first byte of a command's output."""
    starter = SshStarter(address, fast=fast)
    start = time.perf_counter()
    starter.start(["echo", "hi"]).read_some(10, 10.0)
    taken = time.perf_counter() - start
    starter.close()
    return taken
