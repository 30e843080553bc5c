"""Routes from ~/.ssh/config: complete through `ssh -G`, partial without OpenSSH."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from remote.errors import BadUsage
from remote.link.address import Address
from remote.link.ssh.options import parse_options
from remote.link.ssh.resolve import resolve_route
from remote.link.ssh.route import ResolvedHop, Route

METHODS = ("publickey", "keyboard-interactive", "password")
needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client on this machine")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def route(home: Path, config: str, address: Address | None = None, **environment: str) -> Route:
    (home / ".ssh/config").write_text(config)
    (home / ".ssh/config").chmod(0o600)
    given = {"HOME": str(home), "USER": "me", "PATH": os.environ["PATH"], **environment}
    return resolve_route(address or Address("titan", "titan"), given)


def target(home: Path, config: str, address: Address | None = None, **environment: str) -> ResolvedHop:
    return route(home, config, address, **environment).target


@needs_ssh
def test_an_alias_has_the_options_of_its_block(home: Path) -> None:
    hop = target(
        home,
        "Host titan\n  HostName 192.0.2.7\n  Port 2222\n  User someone\n  IdentityFile ~/.ssh/special\n"
        "  IdentitiesOnly yes\n  HostKeyAlias titan-key\n  ConnectTimeout 7\n",
    )
    assert (hop.alias, hop.host, hop.port, hop.user) == ("titan", "192.0.2.7", 2222, "someone")
    assert hop.identity_files == (str(home / ".ssh/special"),)
    assert hop.identities_only
    assert hop.key_name == "titan-key"
    assert hop.connect_timeout_s == 7.0


@needs_ssh
def test_the_address_takes_precedence_over_the_ssh_configuration(home: Path) -> None:
    address = Address(
        "titan", "titan", port=2200, user="other", identity_file="~/keys/mine", known_hosts="~/keys/known"
    )
    hop = target(home, "Host titan\n  HostName 192.0.2.7\n  Port 2222\n  User someone\n", address)
    assert (hop.host, hop.port, hop.user) == ("192.0.2.7", 2200, "other")
    assert hop.identity_files == (str(home / "keys/mine"),)
    assert hop.known_hosts == (str(home / "keys/known"),)
    assert hop.key_name == "[192.0.2.7]:2200"


@needs_ssh
def test_include_match_and_patterns_have_the_semantics_of_ssh(home: Path) -> None:
    (home / ".ssh/more").write_text("Host titan\n  HostName included.lab\n")
    config = (
        f"Include {home}/.ssh/more\n"
        "Match host included.lab\n  User matched\n"
        'Match host included.lab exec "true"\n  Port 2022\n'
        "Host *\n  User never\n"
    )
    hop = target(home, config)
    assert (hop.host, hop.user, hop.port) == ("included.lab", "matched", 2022)


@needs_ssh
def test_a_name_without_a_block_is_unchanged(home: Path) -> None:
    hop = target(home, "", Address("t", "192.0.2.9"))
    assert (hop.host, hop.port, hop.user) == ("192.0.2.9", 22, os.environ.get("USER") or hop.user)
    assert hop.key_name == "192.0.2.9"
    assert str(home / ".ssh/id_ed25519") in hop.identity_files
    assert str(home / ".ssh/known_hosts") in hop.known_hosts


@needs_ssh
def test_gateways_are_in_order_and_each_has_its_own_options(home: Path) -> None:
    config = (
        "Host titan\n  ProxyJump first,someone@second:2222\n"
        "Host first\n  HostName 192.0.2.1\n  User one\n"
        "Host second\n  HostName 192.0.2.2\n  User two\n"
    )
    hops = route(home, config).hops
    assert [(hop.host, hop.port, hop.user) for hop in hops[:2]] == [
        ("192.0.2.1", 22, "one"),
        ("192.0.2.2", 2222, "someone"),
    ]
    assert hops[2].alias == "titan"


@needs_ssh
def test_a_gateway_may_have_gateways(home: Path) -> None:
    config = "Host titan\n  ProxyJump second\nHost second\n  ProxyJump first\n"
    assert [hop.alias for hop in route(home, config).hops] == ["first", "second", "titan"]


@needs_ssh
def test_gateways_of_the_address_take_precedence_over_the_configuration(home: Path) -> None:
    address = Address("titan", "titan", proxy_jump=("mine",))
    hops = route(home, "Host titan\n  ProxyJump theirs\n", address).hops
    assert [hop.alias for hop in hops] == ["mine", "titan"]


@needs_ssh
def test_a_cycle_of_gateways_is_refused(home: Path) -> None:
    with pytest.raises(BadUsage, match="gateways"):
        route(home, "Host titan\n  ProxyJump a\nHost a\n  ProxyJump b\nHost b\n  ProxyJump a\n")


@needs_ssh
def test_a_proxy_command_is_kept(home: Path) -> None:
    hop = target(home, "Host titan\n  ProxyCommand nc %h %p\n")
    assert hop.proxy_command == "nc %h %p"


@needs_ssh
def test_an_invalid_configuration_is_reported_with_the_message_of_ssh(home: Path) -> None:
    with pytest.raises(BadUsage, match="nonsense"):
        route(home, "Nonsense yes\n")


@needs_ssh
@pytest.mark.parametrize(
    ("setting", "strict", "batch", "methods", "tries"),
    [
        ("User me", False, False, METHODS, 3),
        ("StrictHostKeyChecking yes", True, False, METHODS, 3),
        ("StrictHostKeyChecking ask", False, False, METHODS, 3),
        ("BatchMode yes", False, True, METHODS, 3),
        ("PasswordAuthentication no", False, False, METHODS[:2], 3),
        ("KbdInteractiveAuthentication no", False, False, (METHODS[0], METHODS[2]), 3),
        ("PubkeyAuthentication no", False, False, METHODS[1:], 3),
        ("PreferredAuthentications publickey", False, False, METHODS[:1], 3),
        ("PreferredAuthentications password,hostbased,publickey", False, False, ("password", "publickey"), 3),
        ("NumberOfPasswordPrompts 0", False, False, METHODS, 0),
        ("NumberOfPasswordPrompts 1", False, False, METHODS, 1),
    ],
)
def test_SE_the_options_that_forbid_a_question_are_resolved(
    home: Path, setting: str, strict: bool, batch: bool, methods: tuple[str, ...], tries: int
) -> None:
    hop = target(home, f"Host titan\n  {setting}\n")
    assert (hop.strict, hop.batch, hop.methods, hop.password_tries) == (strict, batch, methods, tries)


@pytest.mark.parametrize(
    ("setting", "methods", "tries"),
    [
        ("ChallengeResponseAuthentication no", (METHODS[0], METHODS[2]), 3),
        ("PreferredAuthentications publickey,password", (METHODS[0], METHODS[2]), 3),
        ("NumberOfPasswordPrompts 0", METHODS, 0),
        ("NumberOfPasswordPrompts many", METHODS, 3),
    ],
)
def test_SE_the_options_that_forbid_a_question_are_resolved_without_openssh(
    home: Path, setting: str, methods: tuple[str, ...], tries: int
) -> None:
    hop = target(home, f"Host titan\n  {setting}\n", PATH=str(home))
    assert (hop.methods, hop.password_tries) == (methods, tries)


@needs_ssh
@pytest.mark.parametrize(("setting", "taken"), [("accept-new", True), ("no", False), ("ask", False), ("yes", False)])
def test_only_accept_new_avoids_the_prompt(home: Path, setting: str, taken: bool) -> None:
    assert target(home, f"Host titan\n  StrictHostKeyChecking {setting}\n").accept_new is taken


@needs_ssh
@pytest.mark.parametrize(
    ("setting", "socket"),
    [
        ("", "/run/agent"),
        ("IdentityAgent none", None),
        ("IdentityAgent /run/other", "/run/other"),
        ("IdentityAgent $MINE", "/run/mine"),
    ],
)
def test_the_ssh_agent_that_the_configuration_names_is_used(home: Path, setting: str, socket: str | None) -> None:
    found = target(home, f"Host titan\n  {setting}\n", SSH_AUTH_SOCK="/run/agent", MINE="/run/mine")
    assert found.agent_socket == socket


@needs_ssh
def test_a_host_name_from_the_configuration_is_checked_too(home: Path) -> None:
    with pytest.raises(BadUsage):
        route(home, "Host titan\n  HostName -oProxyCommand=x\n")


def test_without_openssh_unsupported_directives_are_warned_about(home: Path) -> None:
    config = (
        "Include ~/.ssh/more\n"
        "Host titan\n  HostName 192.0.2.7\n  User someone\n  ProxyJump gate\n"
        "Host gate\n  HostName 192.0.2.1\n"
    )
    found = route(home, config, PATH="/nowhere")
    assert [(hop.alias, hop.host) for hop in found.hops] == [
        ("gate", "192.0.2.1"),
        ("titan", "192.0.2.7"),
    ]
    assert found.target.user == "someone"
    assert any("Include" in warning for warning in found.warnings)


def test_without_openssh_a_match_block_has_no_effect(home: Path) -> None:
    found = route(home, "Match localnetwork 10.0.0.0/8\n  User wrong\nHost titan\n  User right\n", PATH="/nowhere")
    assert found.target.user == "right"
    assert any("Match" in warning for warning in found.warnings)


def test_every_value_of_a_repeated_option_is_kept() -> None:
    text = "identityfile ~/.ssh/a\nidentityfile ~/.ssh/b b\nport 22\nempty\n"
    assert parse_options(text) == {"identityfile": ("~/.ssh/a", "~/.ssh/b b"), "port": ("22",)}


def test_SE_an_option_of_ssh_ends_at_a_line_feed_only() -> None:
    value = "a\vport 1\fport 2\x85port 3\u2028port 4\rport 5"
    assert parse_options(f"user {value}\nport 22\n") == {"user": (value,), "port": ("22",)}


@needs_ssh
def test_BI_60_a_missing_home_variable_is_no_error(tmp_path: Path) -> None:
    hop = resolve_route(Address("t", "192.0.2.9"), {"PATH": os.environ["PATH"], "LANG": "C", "TERM": "dumb"}).target
    assert hop.host == "192.0.2.9"
    assert hop.user
